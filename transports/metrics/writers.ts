/**
 * Connections for ReconnectingWriter: TCP or a unix stream socket, and UDP.
 *
 *     stream     a dial takes at most 1.5 s; a write that the kernel does not accept within 1 s ends the connection
 *     datagram   a chunk is a datagram; a pause after 8 of them, so that the buffer of a local peer does not overflow
 *
 * Addresses are resolved at each dial. A close by the peer is noticed immediately, not at the next write.
 */
import { createSocket } from 'node:dgram'
import { lookup } from 'node:dns/promises'
import { connect, type NetConnectOpts, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Dial, Writer } from './reconnecting-writer.ts'

const DIAL_MS = 1_500
const WRITE_MS = 1_000
const BURST_DATAGRAMS = 8 // a Linux socket holds some 90 of 1,432 bytes by default
const BURST_PAUSE_MS = 5

/** `frame` wraps each chunk. */
export function streamDial(target: NetConnectOpts, frame = (bytes: Buffer): Buffer => bytes): Dial {
  return (onGone) =>
    new Promise((resolve, reject) => {
      const socket = connect(target)
      const timer = setTimeout(() => socket.destroy(new Error(`no answer in ${DIAL_MS} ms`)), DIAL_MS).unref()
      socket.unref().resume() // its data is discarded, but its end is noticed
      socket.once('error', reject)
      socket.once('close', () => clearTimeout(timer))
      socket.once('connect', () => {
        clearTimeout(timer)
        socket.off('error', reject)
        let why = 'closed by the other side'
        socket.on('error', (error) => {
          why = error.message
        })
        socket.once('close', () => onGone(why))
        resolve({ write: (bytes) => writeTo(socket, frame(bytes)), close: () => socket.destroy() })
      })
    })
}

function writeTo(socket: Socket, bytes: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const overdue = () => reject(new Error(`a write was not taken in ${WRITE_MS} ms`))
    const timer = setTimeout(overdue, WRITE_MS).unref()
    socket.write(bytes, (error) => {
      clearTimeout(timer)
      if (error) reject(error)
      else resolve()
    })
  })
}

/** The kernel reports a refused datagram at a later one; then the socket is reopened. Datagrams before are lost. */
export function datagramDial(host: string, port: number): Dial {
  return async (onGone) => {
    const address = await lookUpAddress(host)
    const socket = createSocket(address.family === 6 ? 'udp6' : 'udp4').unref()
    await new Promise<void>((resolve, reject) => {
      socket.once('error', (error) => {
        socket.close()
        reject(error)
      })
      socket.connect(port, address.address, resolve)
    })
    socket.removeAllListeners('error').on('error', (error) => onGone(error.message))
    return new DatagramWriter(socket)
  }
}

class DatagramWriter implements Writer {
  private readonly socket: ReturnType<typeof createSocket>
  private sentCount = 0

  constructor(socket: ReturnType<typeof createSocket>) {
    this.socket = socket
  }

  async write(bytes: Buffer): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.socket.send(bytes, (error) => (error ? reject(error) : resolve()))
    })
    if (++this.sentCount % BURST_DATAGRAMS === 0) await sleep(BURST_PAUSE_MS)
  }

  close(): void {
    this.socket.close()
  }
}

/** IPv4 where there is a choice: agents that listen on `localhost` mean 127.0.0.1. */
async function lookUpAddress(host: string): Promise<{ address: string; family: number }> {
  const addresses = await Promise.race([lookup(host, { all: true }), notFound(host)])
  return addresses.find(({ family }) => family === 4) ?? addresses[0]
}

async function notFound(host: string): Promise<never> {
  await sleep(DIAL_MS, undefined, { ref: false })
  throw new Error(`the address of ${host} was not found in ${DIAL_MS} ms`)
}
