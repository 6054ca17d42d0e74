/**
 * What a peer may do, and the attack each bound stops. STREAMS_MAX (streams held open) and HANDSHAKE_MS (silent
 * connections) apply to every frontend and are in ../frontend.ts.
 *
 *     cheap for the peer                                  beyond the bound
 *     a few bytes that occupy much memory          ──►    that call is refused, or the connection closes
 *     a few bytes that cause work or responses     ──►    GOAWAY with ENHANCE_YOUR_CALM, for that connection only
 *     silence, or not reading                      ──►    the server stops reading, then closes the connection
 */

/** One header block over all its frames. Stops memory filled by CONTINUATION frames (CVE-2024-27983). */
export const HEADER_BLOCK_BYTES_MAX = 65_536
/** CONTINUATION frames of one block. Stops blocks of many empty frames, which the size does not bound. */
export const CONTINUATIONS_MAX = 16
/** Decoded headers of one call, 32 bytes more for each (RFC 9113, 6.5.2). Stops HPACK bombs: the call is refused. */
export const HEADER_LIST_BYTES_MAX = 65_536

/**
 * Bytes held for a peer: incomplete or compressed messages; responses that its windows or its TCP hold back. Stops half
 * a message of 4 MiB on each of 1,000 streams, windows of zero, and a peer that never reads. Beyond, the call that adds
 * more is refused; where nothing can be refused, the connection closes.
 */
export const HELD_BYTES_MAX = 8 * 1024 * 1024 // of one connection
/** Of all connections of a thread. Beyond, the connection that holds most closes, so that no other is refused. */
export const HELD_BYTES_ALL_MAX = 12 * 1024 * 1024
/**
 * Bytes of messages in the engine, per thread. Stops thousands of large messages while the store is slow. Beyond, calls
 * of a connection that has CHARGED_BYTES_FAIR_MAX of its own are refused; none closes, since a slow store is not the
 * peer's fault.
 */
export const CHARGED_BYTES_ALL_MAX = 16 * 1024 * 1024
export const CHARGED_BYTES_FAIR_MAX = 65_536
/** A message up to this size is not counted while in the engine: the bounds on calls suffice. */
export const SMALL_MESSAGE_BYTES = 1_024

/**
 * Calls that have ended for the peer (reset, deadline) while the engine still waits for the store. Beyond, new calls of
 * that connection are refused until some return, so that resets after RAPID_MS cannot fill the engine either. A proxy with
 * 10,000 calls per second that gives up after 20 ms reaches this when the store takes 400 ms.
 */
export const ABANDONED_CALLS_MAX = 4_000
/**
 * Calls of a thread, abandoned ones included; about 2 KiB each. Stops STREAMS_MAX calls on each of 10,000 connections.
 * Beyond, further calls of a connection that has CALLS_FAIR_MAX of its own are refused.
 */
export const CALLS_ALL_MAX = 8_192
export const CALLS_FAIR_MAX = 16

/**
 * Bytes read in one turn of the event loop. Beyond, connections with large reads pause, and THROTTLED_RESUMED_MAX of them
 * are resumed per turn. Stops a flood from keeping the thread busy for megabytes while others and responses wait.
 */
export const TURN_BYTES = 32_768
export const LARGE_READ_BYTES = 2_048 // in one read; smaller reads are neither counted nor throttled
export const THROTTLED_RESUMED_MAX = 4

/** gzip messages inflated at once per thread; others queue, and connections take turns. */
export const INFLATING_MAX = 2

/** Queued per stream; beyond, `send` returns false and the service waits for `writable`. */
export const STREAM_QUEUE_BYTES_MAX = 65_536
/** Written but not taken by the peer's TCP. Beyond, the peer is not read from until it has read. */
export const OUTPUT_BYTES_MAX = 262_144
/** Counted for each waiting piece of output beside its bytes. */
export const OUTPUT_PIECE_BYTES = 128
/** An incomplete frame or header block, or untaken output, without progress for this long closes the connection. */
export const STALLED_MS = 120_000

/**
 * Calls that the peer resets within RAPID_MS (CVE-2023-44487). A proxy that gives up after 20 ms while Redis is slow does
 * not count; one whose calls were all buffered while this thread was blocked has room for two such pauses.
 */
export const RAPID_MS = 10
export const RAPID_RESETS: Rate = { burst: 2_000, perSec: 1_000 }
/** Resets that malformed frames make the server send (CVE-2025-8671, MadeYouReset). */
export const FORCED_RESETS: Rate = { burst: 100, perSec: 10 }
/** SETTINGS frames: each costs an acknowledgement and a walk over all streams. */
export const SETTINGS_FRAMES: Rate = { burst: 100, perSec: 1 }
/** Frames without effect on a call: WINDOW_UPDATE, PRIORITY, empty DATA, unknown types. Each call allows some more. */
export const IDLE_FRAMES: Rate = { burst: 10_000, perSec: 100 }
export const IDLE_FRAMES_PER_CALL = 8

/**
 * Pings, as gRPC counts them (spec 5.6): one is free after each response; another one sooner than the gap is a strike.
 * More strikes than this close the connection, which stops a ping flood.
 */
export const PING_STRIKES_MAX = 2
export const PING_GAP_MS = 5 * 60_000 // while calls run
export const PING_GAP_IDLE_MS = 2 * 60 * 60_000 // while none does

/** Keepalive: ping after this silence, close after this long without an acknowledgement. gRPC's defaults. */
export const PING_IDLE_MS = 2 * 60 * 60_000
export const PING_TIMEOUT_MS = 20_000
/** Draining: time for the peer to acknowledge the ping between the two GOAWAYs. */
export const DRAIN_PING_MS = 1_000
/** From the last write to closing, so that a GOAWAY is not lost to a TCP reset. */
export const LINGER_MS = 1_000

/** Streams remembered that the server ended before the peer did: frames still arriving for them are ignored. */
export const ENDED_STREAMS_MAX = 1_024
/** Of an escaped status message: with the other fields it must fit into one frame. */
export const STATUS_MESSAGE_BYTES_MAX = 8_192

export interface Rate {
  readonly burst: number
  readonly perSec: number
}

/** A token bucket, refilled only when it is empty. */
export class TokenBucket {
  private readonly rate: Rate
  private tokens: number
  private refilledMs = 0 // 0 = nothing taken yet

  constructor(rate: Rate) {
    this.rate = rate
    this.tokens = rate.burst
  }

  /** Takes one token; false when there is none. */
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
