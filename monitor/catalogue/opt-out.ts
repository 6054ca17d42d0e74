/**
 * Hosts that are not to be probed (spec 5), each with its subdomains: optout.yaml.
 *
 *     version: 1
 *     hosts:
 *       - example.com            # and www.example.com, but not anexample.com
 *
 * Egress refuses hosts in this set (`hasSuffix` of egress/url-policy.ts); matching sites of a catalogue are left out.
 */
import { readFileSync } from 'node:fs'
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, YAMLSeq } from 'yaml'
import type { Diagnostics } from './entry.ts'
import { writeAtomic } from './write-atomic.ts'

const HOSTS_MAX = 100_000
const EMPTY =
  '# Hosts that are neither probed nor listed, each with everything below it.\nversion: 1\nhosts: []\n'
const HOST_FIX = 'Write a name such as example.com, without scheme, port and path.'

/** Without a file the set is empty. */
export function readOptOut(path: string, text: string | null, diagnostics: Diagnostics): Set<string> {
  const hosts = new Set<string>()
  if (text === null) return hosts
  const lines = new LineCounter()
  const getLine = (node: Node | null) => (node?.range ? lines.linePos(node.range[0]).line : 1)
  const addDiagnostic = (line: number, code: string, what: string, fix: string) =>
    diagnostics.add({ file: path, line, site: null, code, what, fix })
  const document = parseDocument(text, {
    version: '1.2',
    schema: 'core',
    prettyErrors: false,
    lineCounter: lines,
  })
  for (const { message, pos } of [...document.errors, ...document.warnings]) {
    addDiagnostic(
      lines.linePos(pos[0]).line,
      'YAML_INVALID',
      `the YAML is not valid: ${message}.`,
      'Correct it.',
    )
  }
  const root = document.contents as Node | null
  const list = isMap(root) && root.get('version') === 1 ? (root.get('hosts') as Node | null) : null
  if (!isSeq(list)) {
    addDiagnostic(1, 'SHAPE_INVALID', 'is not a list of hosts.', 'Begin with `version: 1` and `hosts:`.')
    return hosts
  }
  for (const item of list.items as Node[]) {
    const host = isScalar(item) && typeof item.value === 'string' ? parseHost(item.value) : null
    if (host === null) addDiagnostic(getLine(item), 'HOST_INVALID', 'is not a host.', HOST_FIX)
    else hosts.add(host)
  }
  if (hosts.size > HOSTS_MAX)
    addDiagnostic(1, 'HOSTS_TOO_MANY', `has ${hosts.size} hosts.`, `Keep at most ${HOSTS_MAX}.`)
  return hosts
}

/** Normalized as by `URL`: lower case, ASCII, no final dot. Null when it is not a host. */
export function parseHost(text: string): string | null {
  const isPlain = /^[^\s/?#@:[\]\\]+$/.test(text) && URL.canParse(`http://${text}/`)
  const host = isPlain ? new URL(`http://${text}/`).hostname.replace(/^\*\./, '').replace(/\.$/, '') : ''
  return host === '' || host.includes('*') ? null : host
}

/** Returns false when the host is listed already. Keeps comments and order of the file. */
export function addOptOut(path: string, host: string): boolean {
  return edit(path, (hosts) => {
    const known = hosts.items.some((item) => parseHost(String((item as Node).toJSON())) === host)
    if (!known) hosts.add(host)
    return !known
  })
}

/** Returns false when the host is not listed. */
export function removeOptOut(path: string, host: string): boolean {
  return edit(path, (hosts) => {
    const index = hosts.items.findIndex((item) => parseHost(String((item as Node).toJSON())) === host)
    if (index >= 0) hosts.delete(index)
    return index >= 0
  })
}

function edit(path: string, change: (hosts: YAMLSeq) => boolean): boolean {
  const document = parseDocument(readText(path) ?? EMPTY)
  let hosts = document.get('hosts')
  if (!isSeq(hosts)) {
    hosts = new YAMLSeq()
    document.set('hosts', hosts)
  }
  ;(hosts as YAMLSeq).flow = false
  const isChanged = change(hosts as YAMLSeq)
  if (isChanged) writeAtomic(path, document.toString({ lineWidth: 0 }))
  return isChanged
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
