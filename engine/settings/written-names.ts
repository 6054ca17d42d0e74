/**
 * Settings under the names the operator wrote: someone who sets KVSTORE_URL looks for KVSTORE_URL, not for REDIS_URL.
 *
 *     { KVSTORE_URL: … }   'REDIS_URL "x": it is not host:port.'  ──►  'KVSTORE_URL "x": it is not host:port.'
 *
 * Applied where texts leave the process, so code everywhere else has one name for each setting.
 */
import type { WrittenNames } from './store.ts'

/** A function that writes each setting in a text as it was set. Null when every name is the real one: nothing to do. */
export function inWrittenNames(written: WrittenNames): ((text: string) => string) | null {
  const older = [...written].filter(([name, writtenName]) => name !== writtenName)
  if (older.length === 0) return null
  const olderNames = new Map<string, string>(older)
  const names = new RegExp(`\\b(?:${[...olderNames.keys()].join('|')})\\b`, 'g') // `_` is a word character: whole names only
  return (text) => text.replace(names, (name) => olderNames.get(name)!)
}
