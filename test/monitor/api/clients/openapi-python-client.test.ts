/** A client that openapi-python-client generates from the document: answers pass through its classes without a loss. */
import { writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { type Output, runProgram } from '../../../helpers/run-program.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'
import { ANSWERS_MIN, type Answer, collectAnswers, DOCUMENT } from './answers.ts'

const GENERATOR = fileURLToPath(new URL('../../../.tools/openapi-python-client', import.meta.url)) // put there by the bootstrap
const ROUND_TRIP = fileURLToPath(new URL('./round_trip.py', import.meta.url))
const NO_FORMATTER = 'post_hooks: []\n' // what it would run on the generated code

const folder = makeTemporaryFolder()
let generated: Output
beforeAll(async () => {
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(DOCUMENT))
  writeFileSync(join(folder, 'config.yaml'), NO_FORMATTER)
  generated = await python(
    ...['-m', 'openapi_python_client', 'generate', '--path', 'openapi.json', '--config', 'config.yaml'],
    ...['--meta', 'none', '--output-path', 'client'],
  )
})

test('the client is generated without a warning', () => {
  expect(generated.code, generated.output).toBe(0)
  expect(generated.output).not.toMatch(/warning|error|skipping|unable/i) // it leaves out what it cannot read
})

test('M10#2 every answer is the same after from_dict and to_dict, and each member has a name there', async () => {
  const answers = await collectAnswers()
  expect(answers.length).toBeGreaterThan(ANSWERS_MIN)
  expect(await roundTrip(answers)).toEqual({ count: answers.length, losses: [] })
})

test('a member, a value or a status that the document does not have is found', async () => {
  const site = (await collectAnswers()).find(({ title }) => title === 'GET /api/v1/sites/alpha')!
  const body = site.body as Record<string, object>
  const { losses } = await roundTrip([
    { ...site, title: 'closed', body: { ...body, more: 1 } },
    { ...site, title: 'open', body: { ...body, network_profile: { ...body.network_profile, more: 1 } } },
    { ...site, title: 'value', body: { ...body, tier: 'E' } },
    { ...site, title: 'missing', body: { ...body, name: undefined } },
    { ...site, title: 'status', status: 418 },
  ])
  expect(losses).toEqual([
    'closed: /more is lost',
    'open: /network_profile: NetworkProfile does not know more',
    expect.stringContaining('value: ValueError'),
    expect.stringContaining('missing: KeyError'),
    'status: the client knows no response of this status',
  ])
})

async function roundTrip(answers: Answer[]): Promise<{ count: number; losses: string[] }> {
  writeFileSync(join(folder, 'answers.json'), JSON.stringify(answers))
  const { code, output } = await python(ROUND_TRIP, 'answers.json')
  expect(code, output).toBe(0)
  return JSON.parse(output)
}

function python(...args: string[]): Promise<Output> {
  return runProgram('python3', args, { cwd: folder, PYTHONPATH: [GENERATOR, folder].join(delimiter) })
}
