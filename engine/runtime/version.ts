/** The version of this package, from package.json. */
import { readFileSync } from 'node:fs'
import { resolveRoot } from './module-url.ts'

export const VERSION: string = JSON.parse(readFileSync(resolveRoot('package.json'), 'utf8')).version
