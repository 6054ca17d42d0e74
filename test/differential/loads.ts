/**
 * The same rule files loaded by both: whether they are accepted, and the rules in force or the error.
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
  /** `files` are named by the version, so that results of an earlier load are not mistaken for this one's. */
  load(texts: string[]): Promise<{ sluice: Loaded; reference: Loaded }>
  /** Loads the same files into the reference again: it reads maps in random order, so another error may come first. */
  loadAgain(): Promise<Loaded>
  stop(): Promise<void>
}

const LOAD_MS_MAX = 60_000

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
    const loaded = await waitForLoad(reference, version, logged)
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
      return { reference: loaded, sluice: await loadInProcess(folder.root, isMerging, version) }
    },
    loadAgain: swap,
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

/** Null if the process of the reference ended. */
async function waitForLoad(side: Side, version: number, logged: number): Promise<Loaded | null> {
  const until = Date.now() + LOAD_MS_MAX
  while (side.isRunning()) {
    const messages = side.log().slice(logged).split('\n').flatMap(parseMessage)
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

function parseMessage(line: string): string[] {
  if (!line.startsWith('{') || !line.endsWith('}')) return []
  return [(JSON.parse(line) as { '@message': string })['@message']]
}

async function loadInProcess(root: string, isMerging: boolean, version: number): Promise<Loaded> {
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

/** The part of an error that the spec fixes (1.3): without the library's text, printed values, and Sluice's line number. */
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
export function loadDifference(sluice: Loaded, reference: Loaded): string {
  if (sluice.ok !== reference.ok) return sluice.ok ? 'only the reference refuses' : 'only Sluice refuses'
  if (sluice.ok && reference.ok) return sluice.lines === reference.lines ? '' : 'what is in force'
  const [sluiceError, referenceError] = [sluice, reference].map((loaded) =>
    fixedPart((loaded as { error: string }).error),
  )
  return sluiceError === referenceError ? '' : 'the error'
}
