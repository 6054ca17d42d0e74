/** Whether this process may mount file systems, which small disks and private host names need. */
import { spawnSync } from 'node:child_process'

/** Why it may not; null = it may. */
export function mountSkipReason(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'it mounts, which needs root on Linux'
  const { status } = spawnSync('unshare', ['-m', 'sh', '-c', 'mount -t tmpfs tmpfs /mnt'])
  return status === 0 ? null : 'it mounts, which this machine does not allow'
}
