/**
 * TLS over a connection that stands. The certificate must hold `name`, which may be an IP address: that is compared, and
 * not sent, since an address is no name (RFC 6066).
 */
import { isIP, type Socket } from 'node:net'
import { connect, type SecureContext } from 'node:tls'

export interface Tls {
  context: SecureContext
  name: string
}

/** Rejects with what is wrong with the certificate, theirs or ours. */
export function throughTls(socket: Socket, { context, name }: Tls): Promise<Socket> {
  const options = {
    socket,
    secureContext: context,
    host: name,
    ...(isIP(name) === 0 && { servername: name }),
    ALPNProtocols: ['h2'],
  }
  return new Promise((resolve, reject) => {
    const secured = connect(options, () => resolve(secured))
    secured.on('error', reject) // stays, since nobody else listens until the library does
  })
}
