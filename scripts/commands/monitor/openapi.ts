import { VERSION } from '../../../engine/runtime/version.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { printJson } from '../output.ts'
import type { Command } from './command.ts'

export const openapi: Command = {
  usage: `openapi

Prints the API's OpenAPI 3.1 document, like GET /api/v1/openapi.json, formatted.
`,
  run(_, io) {
    printJson(io, openApi({ version: VERSION, isClosed: false }))
    return 0
  },
}
