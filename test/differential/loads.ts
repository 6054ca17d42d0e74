/**
 * The same rule files loaded by both: whether they are taken, what is in force then, or what the error says.
 *
 *     files ──► rules/current ──┬──► the reference: its log, its /rlconfig
 *                               └──► loadRules, in this process: the whole way from files to an image
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { loadRules } from '../../engine/config/load.ts'
import { Trie } from '../../engine/match/trie.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'
import { startRedis } from '../helpers/redis.ts'
import { RulesFolder } from './pair.ts'
import { type Side, startReference } from './reference.ts'

/** `lines`: of /rlconfig, sorted (the reference's order is random). */
export type Loaded = { ok: true; lines: string } | { ok: false; error: string }

export interface Loader {
  /** `files` are named by the version, so nothing of an earlier load is taken for this one's. */
  load(texts: string[]): Promise<{ ours: Loaded; reference: Loaded }>
  /** What else the reference says of the same files: it looks at maps in random order. */
  again(): Promise<Loaded>
  stop(): Promise<void>
}

const LOAD_MS_MAX = 10_000

export async function startLoader(program: string, isMerging: boolean): Promise<Loader> {
  const folder = new RulesFolder()
  const redis = await startRedis()
  folder.swap({})
  const start = () =>
    startReference(program, {
      RUNTIME_ROOT: folder.root,
      RUNTIME_SUBDIRECTORY: 'rl',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: redis.address,
      MERGE_DOMAIN_CONFIG: String(isMerging),
    })
  let reference = await start()
  let version = 0
  let texts: string[] = []
  const swap = async (): Promise<Loaded> => {
    version++
    const named = texts.map((text, i) => [`f${version}-${i}.yaml`, text])
    const logged = reference.log().length
    folder.swap({ ...Object.fromEntries(named), [`z${version}.yaml`]: markerText(version) })
    const loaded = await outcome(reference, version, logged)
    if (loaded !== null) return loaded
    const log = reference.log().slice(logged)
    await reference.stop()
    folder.swap({})
    reference = await start()
    return { ok: false, error: `the reference ended: ${log.slice(0, 500)}` }
  }
  return {
    load: async (next) => {
      texts = next
      const loaded = await swap()
      return { reference: loaded, ours: await ourOutcome(folder.root, isMerging, version) }
    },
    again: swap,
    stop: async () => {
      await reference.stop()
      await redis.stop()
      folder.remove()
    },
  }
}

function markerText(version: number): string {
  return `domain: marker-${version}\ndescriptors: [{ key: m, rate_limit: { unlimited: true } }]\n`
}

/** Null when the reference ended. */
async function outcome(side: Side, version: number, logged: number): Promise<Loaded | null> {
  const until = Date.now() + LOAD_MS_MAX
  while (side.isRunning()) {
    const messages = side.log().slice(logged).split('\n').flatMap(messageOf)
    const error = messages.find((message) => message.includes(`config.f${version}-`))
    if (error !== undefined)
      return { ok: false, error: withoutVersion(error.replace(LOAD_ERROR, ''), version) }
    if (messages.some((message) => message.startsWith('Successfully loaded'))) {
      const text = await (await fetch(`${side.debug}/rlconfig`)).text()
      if (text.includes(`marker-${version}.m: `)) return { ok: true, lines: sorted(text) }
    }
    if (Date.now() > until) throw new Error(`no load in ${LOAD_MS_MAX} ms:\n${messages.join('\n')}`)
    await sleep(2)
  }
  return null
}

const LOAD_ERROR = 'Error loading new configuration: '

function messageOf(line: string): string[] {
  if (!line.startsWith('{') || !line.endsWith('}')) return []
  return [(JSON.parse(line) as { '@message': string })['@message']]
}

async function ourOutcome(root: string, isMerging: boolean, version: number): Promise<Loaded> {
  const tree = { root, subdirectory: 'rl', appDirectory: 'config', isDotIgnored: false, isRootWatched: true }
  const result = await loadRules({ from: 'tree', tree, isMerging })
  if (!result.ok) return { ok: false, error: withoutVersion(result.error, version) }
  let text = ''
  for (const { path, limit, isShadow, isQuota } of new Trie(result.image).rules()) {
    const modes = `shadow_mode: ${isShadow}, quota_mode: ${isQuota}`
    text += `${path}: unit=${UNIT_NAMES[limit.unit]} requests_per_unit=${limit.requestsPerUnit}, ${modes}\n`
  }
  return { ok: true, lines: sorted(text) }
}

function sorted(text: string): string {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('marker-'))
  return lines.sort().join('\n')
}

function withoutVersion(text: string, version: number): string {
  return text.replaceAll(`config.f${version}-`, 'config.f-')
}

/** What the spec fixes of an error (1.3): not the library's words, not a printed value; nor our line at the end. */
export function fixedPart(error: string): string {
  return error
    .replace(/ \(line \d+\)$/, '')
    .replace(/(: error loading config file: ).*/s, '$1')
    .replace(
      /(: config error, (key is not of type string|yaml file contains list of type other than map): ).*/s,
      '$1',
    )
}

/** What differs, or ''. */
export function loadDifference(ours: Loaded, reference: Loaded): string {
  if (ours.ok !== reference.ok) return ours.ok ? 'only the reference refuses' : 'only ours refuses'
  if (ours.ok && reference.ok) return ours.lines === reference.lines ? '' : 'what is in force'
  const [mine, theirs] = [ours, reference] as { error: string }[]
  return fixedPart(mine.error) === fixedPart(theirs.error) ? '' : 'the error'
}
