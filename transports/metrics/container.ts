/**
 * The id of this process's container, from which Datadog's agent adds the tags of the pod (spec 7.5).
 *
 *     /proc/self/cgroup       12:memory:/docker/3f2a…        3f2a…       host paths, mostly of cgroup v1
 *     /proc/self/mountinfo    … /containers/3f2a…/hostname   3f2a…       if cgroup is `0::/`
 *     inode of our cgroup     /sys/fs/cgroup                 in-4711     resolved by the agent; not used outside containers
 */
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const ID = '[0-9a-f]{64}|[0-9a-f]{32}-\\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){4}' // Docker and the like, ECS, Cloud Foundry
const IN_CGROUP = new RegExp(`(${ID})(?:\\.scope)?$`)
const IN_MOUNTS = new RegExp(`/([^\\s/]+)/(${ID})/\\S*hostname`)
const CGROUP_LINE = /^\d+:([^:]*):(.+)$/
const HOST_CGROUP_INODE = 0xeffffffb // of the first cgroup namespace, always
const INODE_MIN = 2 // below, it is no cgroup

/** Empty if unknown. `root` is for tests. */
export function containerId(root = '/'): string {
  const cgroup = readLines(join(root, 'proc/self/cgroup'))
  for (const line of cgroup) {
    const found = IN_CGROUP.exec(line)
    if (found) return found[1]
  }
  for (const line of readLines(join(root, 'proc/self/mountinfo'))) {
    const found = IN_MOUNTS.exec(line)
    if (found && found[1] !== 'sandboxes') return found[2] // a sandbox belongs to the pod
  }
  return readInode(cgroup, root)
}

function readInode(cgroup: readonly string[], root: string): string {
  if (inodeAt(join(root, 'proc/self/ns/cgroup')) === HOST_CGROUP_INODE) return ''
  for (const line of cgroup) {
    const [, controller, path] = CGROUP_LINE.exec(line) ?? []
    if (controller !== 'memory' && controller !== '') continue
    const inode = inodeAt(join(root, 'sys/fs/cgroup', controller, path))
    if (inode >= INODE_MIN) return `in-${inode}`
  }
  return ''
}

function readLines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n')
  } catch {
    return [] // not Linux
  }
}

function inodeAt(path: string): number {
  try {
    return statSync(path).ino
  } catch {
    return 0
  }
}
