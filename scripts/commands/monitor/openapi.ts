import { VERSION } from '../../../engine/runtime/version.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { printJson } from '../output.ts'
import type { Command } from './command.ts'
import { createContext } from './context.ts'

export const openapi: Command = {
  usage: `openapi

Prints the API's OpenAPI 3.1 document, like GET /api/v1/openapi.json, formatted. Server and contact are those of
PUBLIC_BASE_URL and SUPPORT_EMAIL.
`,
  run(_, io) {
    const { options, settings } = createContext(io)
    const { publicBaseUrl } = options
    printJson(
      io,
      openApi({ version: VERSION, isClosed: false, publicBaseUrl, supportEmail: settings.SUPPORT_EMAIL }),
    )
    return 0
  },
}
