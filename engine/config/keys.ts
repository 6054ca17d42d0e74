/**
 * Checks that all keys are known and all list items are maps, at every level (spec 1.3).
 *
 *     domain: shop              fine
 *     descriptors:
 *       - kee: user             config error, unknown key 'kee'
 *         unit: 5               fine here and ignored later: a known key in the wrong place
 *         metadata: { a: [1] }  fine: metadata is not checked
 *
 * envoyproxy/ratelimit reports a random one of several errors; this reports the first in the file.
 */
import { isMap, isScalar, isSeq } from 'yaml'
import { ConfigError } from './error.ts'
import { scalarKind, scalarText } from './scalar.ts'
import type { AnyNode, YamlFile } from './yaml.ts'
import { printed } from './yaml.ts'

// biome-ignore format: as the specification lists them
const KNOWN_KEYS = new Set([
  'domain', 'key', 'value', 'descriptors', 'rate_limit', 'unit', 'requests_per_unit', 'unlimited', 'shadow_mode',
  'quota_mode', 'name', 'replaces', 'detailed_metric', 'value_to_metric', 'share_threshold', 'metadata',
])
/** Of Sluice: envoyproxy/ratelimit refuses files with these. */
const OWN_KEYS = new Set(['on_store_error', 'local_share'])
/** Their values are not checked here: of the second, read.ts reports the range. */
const UNCHECKED_KEYS = new Set(['metadata', 'local_share'])

/** Receives each key of OWN_KEYS. */
export type OnOwnKey = (key: string, line: number) => void

/** Throws the first error under `node`, which is a map or the empty root. */
export function checkKeys(file: YamlFile, node: AnyNode, onOwnKey: OnOwnKey): void {
  const map = file.follow(node)
  if (!isMap(map)) return
  const pairs = file.pairs(map)
  const last = new Map<string, AnyNode>() // of a repeated word only the last value is checked
  for (const pair of pairs) last.set(keyText(file, pair.key), pair.value)
  for (const pair of pairs) {
    const word = checkKey(file, pair.key, onOwnKey)
    if (!UNCHECKED_KEYS.has(word) && last.get(word) === pair.value) checkValue(file, pair.value, onOwnKey)
  }
}

function keyText(file: YamlFile, node: AnyNode): string {
  const key = file.follow(node)
  return isScalar(key) ? scalarText(key) : ''
}

function checkKey(file: YamlFile, node: AnyNode, onOwnKey: OnOwnKey): string {
  const key = file.follow(node)
  const line = file.getLine(node)
  if (!isScalar(key)) throw new ConfigError(file.name, 'config error, key is not of type string: <nil>', line)
  const text = scalarText(key)
  if (KNOWN_KEYS.has(text)) return text
  if (OWN_KEYS.has(text)) {
    onOwnKey(text, line)
    return text
  }
  const kind = scalarKind(key)
  if (kind !== 'str' && kind !== 'binary') {
    throw new ConfigError(file.name, `config error, key is not of type string: ${printed(file, key)}`, line)
  }
  throw new ConfigError(file.name, `config error, unknown key '${text}'`, line)
}

function checkValue(file: YamlFile, node: AnyNode, onOwnKey: OnOwnKey): void {
  const value = file.follow(node)
  if (isMap(value)) {
    checkKeys(file, value, onOwnKey)
  } else if (isSeq(value)) {
    for (const item of value.items as AnyNode[]) {
      if (!isMap(file.follow(item))) {
        const text = `config error, yaml file contains list of type other than map: ${printed(file, item)}`
        throw new ConfigError(file.name, text, file.getLine(item) || file.getLine(value))
      }
      checkKeys(file, item, onOwnKey)
    }
  } else if (isScalar(value)) {
    const kind = scalarKind(value)
    if (kind === 'float' || kind === 'uint') {
      throw new ConfigError(file.name, 'error checking config', file.getLine(node))
    }
  }
}
