/** Redocly's lint of the OpenAPI document (spec 10): no error and no warning; redocly.yaml has what is off, and why. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { runProgram } from '../../helpers/run-program.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const LINT = fileURLToPath(new URL('../../../node_modules/@redocly/cli/bin/cli.js', import.meta.url))
const CONFIG = fileURLToPath(new URL('./redocly.yaml', import.meta.url))
/** Nothing is sent to anybody. */
const QUIET = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', CI: 'true' }

interface Problem {
  ruleId: string
  severity: string
  message: string
  location: { pointer: string }[]
}

async function lint(document: unknown): Promise<string[]> {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(document))
  const args = [
    LINT,
    'lint',
    'openapi.json',
    '--config',
    CONFIG,
    '--format',
    'json',
    '--max-problems',
    '1000',
  ]
  const { output } = await runProgram(process.execPath, args, { cwd: folder, ...QUIET })
  const start = output.indexOf('{')
  expect(start, output).toBeGreaterThanOrEqual(0)
  const { problems } = JSON.parse(output.slice(start, output.lastIndexOf('}') + 1)) as { problems: Problem[] }
  return problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0].pointer}`)
}

interface Operation {
  parameters: { description?: string }[]
  responses: Record<number, { content: { 'application/json': { example: { sites: unknown } } } }>
}
interface Document {
  paths: Record<string, { get: Operation }>
  components: { schemas: Record<string, object> }
}

const getDocument = () => openApi({ version: '1.2.3', isClosed: false }) as unknown as Document

test('M10#2 the document has no error and no warning', async () => {
  expect(await lint(getDocument())).toEqual([])
})

test('a wrong example, a parameter without a description and an unused schema are found', async () => {
  const document = getDocument()
  const { paths, components } = document
  delete paths['/api/v1/sites'].get.parameters[0].description
  paths['/api/v1/meta'].get.responses[200].content['application/json'].example.sites = 'many'
  components.schemas.Unused = { type: 'object' }
  const found = (await lint(document)).map((problem) => problem.split(':')[0])
  expect(found.sort()).toEqual([
    'no-invalid-media-type-examples',
    'no-unused-components',
    'parameter-description',
  ])
})
