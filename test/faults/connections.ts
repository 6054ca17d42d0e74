/** Which TCP connections a process has, from /proc of Linux. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

const ESTABLISHED = '01'

/** Established ones to a port of an IPv4 address. */
export function countConnectionsTo(pid: number, port: number): number {
  const inodes = new Set<string>()
  for (const descriptor of readdirSync(`/proc/${pid}/fd`)) {
    const inode = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${descriptor}`))?.[1]
    if (inode !== undefined) inodes.add(inode)
  }
  const [, ...lines] = readFileSync(`/proc/${pid}/net/tcp`, 'latin1').trimEnd().split('\n')
  const ending = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const rows = lines.map((line) => line.trim().split(/ +/))
  return rows.filter(
    ([, , remote, state, , , , , , inode]) =>
      remote.endsWith(ending) && state === ESTABLISHED && inodes.has(inode),
  ).length
}

function readLink(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return '' // closed meanwhile
  }
}
