/** gRPC status codes. Over limit is a response with status Ok, not an error. */
export const Status = {
  Ok: 0,
  Cancelled: 1,
  Unknown: 2,
  InvalidArgument: 3,
  DeadlineExceeded: 4,
  NotFound: 5,
  AlreadyExists: 6,
  PermissionDenied: 7,
  ResourceExhausted: 8,
  FailedPrecondition: 9,
  Aborted: 10,
  OutOfRange: 11,
  Unimplemented: 12,
  Internal: 13,
  Unavailable: 14,
  DataLoss: 15,
  Unauthenticated: 16,
} as const
export type Status = (typeof Status)[keyof typeof Status]

/** `statusName(14)` is `Unavailable`, as Go writes it; a number that is no status is written `Code(99)`. */
export function statusName(code: number): string {
  if (code === Status.Ok) return 'OK'
  if (code === Status.Cancelled) return 'Canceled' // Go spells it so
  const found = Object.entries(Status).find(([, number]) => number === code)
  return found === undefined ? `Code(${code})` : found[0]
}
