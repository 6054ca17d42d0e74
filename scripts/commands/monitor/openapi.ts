import { readFileSync } from 'node:fs'
import { resolveRoot } from '../../../engine/runtime/module-url.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import type { Command } from './command.ts'
import { printJson } from './output.ts'

export const openapi: Command = {
  usage: `openapi

Prints the API's OpenAPI 3.1 document, like GET /api/v1/openapi.json, formatted.
`,
  run() {
    const { version } = JSON.parse(readFileSync(resolveRoot('package.json'), 'utf8'))
    printJson(openApi({ version, isClosed: false }))
    return 0
  },
}
