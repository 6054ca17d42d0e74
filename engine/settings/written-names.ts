/**
 * Shows settings under the names that the operator wrote: a message about KVSTORE_URL must not name REDIS_URL.
 *
 *     { KVSTORE_URL: … }   'REDIS_URL "x": it is not host:port.'  ──►  'KVSTORE_URL "x": it is not host:port.'
 *
 * Applied where texts leave the process, so the rest of the code uses one name per setting.
 */
import type { WrittenNames } from './store.ts'

/** Returns a function that replaces names of settings in a text by the written ones; null = all are the current names. */
export function inWrittenNames(written: WrittenNames): ((text: string) => string) | null {
  const older = [...written].filter(([name, writtenName]) => name !== writtenName)
  if (older.length === 0) return null
  const olderNames = new Map<string, string>(older)
  const names = new RegExp(`\\b(?:${[...olderNames.keys()].join('|')})\\b`, 'g') // `_` is a word character: whole names only
  return (text) => text.replace(names, (name) => olderNames.get(name)!)
}
