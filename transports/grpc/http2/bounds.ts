/**
 * What a peer may do, and the attack each bound stops. Two bounds are the frontend's whole: STREAMS_MAX (streams held
 * open) and HANDSHAKE_MS (silent connections) stand in ../frontend.ts.
 *
 *     cheap for the peer                                  beyond the bound
 *     a few bytes that make us remember much       ──►    that call is refused, or the connection ends
 *     a few bytes that make us work or answer      ──►    GOAWAY, ENHANCE_YOUR_CALM, and only for that connection
 *     saying nothing, or not reading               ──►    we stop reading, then the connection ends
 */

/** One header block, over all its frames. Without: memory filled by CONTINUATION frames (CVE-2024-27983). */
export const HEADER_BLOCK_BYTES_MAX = 65_536
/** CONTINUATION frames of one block. Without: work by blocks of many empty frames, which never reach a size. */
export const CONTINUATIONS_MAX = 16
/** Headers of one call, unpacked, 32 bytes each on top (RFC 9113, 6.5.2): an HPACK bomb. The call is refused. */
export const HEADER_LIST_BYTES_MAX = 65_536

/**
 * Bytes kept for a peer: messages that are not complete, or packed; answers that its windows or
 * its TCP hold back. Without: half a message of 4 MiB on each of 1,000 streams, windows of zero, a peer that never
 * reads. Beyond, the call that brings more is refused; where nothing can be refused, the connection ends.
 */
export const HELD_BYTES_MAX = 8 * 1024 * 1024 // of one connection
/** Of all connections of a thread. Beyond, the connection that keeps most ends, so that nobody else is refused. */
export const HELD_BYTES_ALL_MAX = 12 * 1024 * 1024
/**
 * Bytes of messages that the engine has not answered, of a thread. Without: thousands of large messages while the store
 * takes its time. Beyond, a connection that has ASKED_BYTES_FAIR_MAX of its own has its calls refused; none is ended, since
 * a store that is slow for a moment is nobody's fault.
 */
export const CHARGED_BYTES_ALL_MAX = 16 * 1024 * 1024
export const CHARGED_BYTES_FAIR_MAX = 65_536
/** A whole message up to this is not counted while it is decided: the bounds of calls are enough. */
export const SMALL_MESSAGE_BYTES = 1_024

/**
 * Calls that are over for their caller (reset, deadline) and not for the engine: it waits for the store. Beyond, new
 * calls of that connection are refused until some return, so that resets after RAPID_MS do not fill the engine either.
 * A proxy with 10,000 calls per second that gives up after 20 ms comes here when the store takes 400 ms.
 */
export const ABANDONED_CALLS_MAX = 4_000
/**
 * Calls of a thread, abandoned ones included; some 2 KiB each. Without: STREAMS_MAX of 10,000 connections. Beyond, a
 * connection that has CALLS_FAIR_MAX of its own is refused more.
 */
export const CALLS_ALL_MAX = 8_192
export const CALLS_FAIR_MAX = 16

/**
 * Read in one turn of the event loop. Beyond, who has sent much at once rests, and some of those are read in each turn.
 * Without: a peer that floods keeps this thread busy for megabytes, before others and our answers get their turn.
 */
export const TURN_BYTES = 32_768
export const LARGE_READ_BYTES = 2_048 // at once; less is neither counted nor ever made to rest
export const THROTTLED_RESUMED_MAX = 4

/** gzip messages unpacked at once by a thread; others queue, and connections take turns. */
export const INFLATING_MAX = 2

/** Of a stream, then its service is told to send no more. */
export const STREAM_QUEUE_BYTES_MAX = 65_536
/** Written and not taken by the peer's TCP. Beyond, nothing more is read from it until it has read. */
export const OUTPUT_BYTES_MAX = 262_144
/** Of each piece of output that waits, beside its bytes. */
export const OUTPUT_PIECE_BYTES = 128
/** Half a frame or header block, or answers of ours that nobody takes, for this long without any progress. */
export const STALLED_MS = 120_000

/**
 * A window of bytes: so many at once, and each second so many come back. `RAPID_RESETS` is calls that the peer takes
 * back within RAPID_MS (CVE-2023-44487); a proxy that gives up after 20 ms while Redis is slow never touches it, and
 * one whose calls all lay in a buffer while this thread slept has room for two such sleeps.
 */
export const RAPID_MS = 10
export const RAPID_RESETS: Rate = { burst: 2_000, perSec: 1_000 }
/** Resets that faulty frames make us send (CVE-2025-8671, MadeYouReset). */
export const FORCED_RESETS: Rate = { burst: 100, perSec: 10 }
/** SETTINGS frames: each costs us an answer, and a walk over all streams. */
export const SETTINGS_FRAMES: Rate = { burst: 100, perSec: 1 }
/** Frames that move nothing: WINDOW_UPDATE, PRIORITY, empty DATA, unknown ones. Each call earns some more. */
export const IDLE_FRAMES: Rate = { burst: 10_000, perSec: 100 }
export const IDLE_FRAMES_PER_CALL = 8

/**
 * Pings, as gRPC counts them (spec 5.6): one is free after each answer of ours; of the others, those that come sooner
 * than this are strikes. One strike too many ends the connection, and with it a ping flood.
 */
export const PING_STRIKES_MAX = 2
export const PING_GAP_MS = 5 * 60_000 // while calls run
export const PING_GAP_IDLE_MS = 2 * 60 * 60_000 // while none does

/** gRPC's own signs of life: ping after this silence, and close after this long without an answer. */
export const PING_IDLE_MS = 2 * 60 * 60_000
export const PING_TIMEOUT_MS = 20_000
/** Draining: how long the peer may take to answer the ping between the two GOAWAYs. */
export const DRAIN_PING_MS = 1_000
/** After our last word, so that a GOAWAY is not lost to a reset of the connection. */
export const LINGER_MS = 1_000

/** Streams we ended before the peer did: what it still sends there is no fault. Older ones are forgotten. */
export const ENDED_STREAMS_MAX = 1_024
/** Of a status message, escaped: with the rest it must fit into one frame. */
export const STATUS_MESSAGE_BYTES_MAX = 8_192

export interface Rate {
  readonly burst: number
  readonly perSec: number
}

/** A bucket of tokens, looked after only when it is empty. */
export class TokenBucket {
  private readonly rate: Rate
  private tokens: number
  private refilledMs = 0 // 0 = nothing taken yet

  constructor(rate: Rate) {
    this.rate = rate
    this.tokens = rate.burst
  }

  /** Takes one; false when there is none. */
  take(nowMs: number): boolean {
    if (this.refilledMs === 0) this.refilledMs = nowMs
    if (this.tokens < 1) {
      this.add(((nowMs - this.refilledMs) * this.rate.perSec) / 1000)
      this.refilledMs = nowMs
      if (this.tokens < 1) return false
    }
    this.tokens--
    return true
  }

  add(count: number): void {
    this.tokens = Math.min(this.rate.burst, this.tokens + count)
  }
}
