/**
 * Appendix A.6 against the whole service: which `/json` bodies are accepted and which are refused.
 */
import { expect, test } from 'vitest'
import { postJson, startService } from '../helpers/service.ts'

const RULES =
  'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 1000000 }\n'

const request = (fields: string) =>
  `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}],${fields}}`
const descriptor = (fields: string) =>
  `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],${fields}}]}`
const limit = (unit: string) => descriptor(`"limit":{"requestsPerUnit":1000000,"unit":${unit}}`)

// biome-ignore format: the columns are the specification
const rows = [
  ['A.6#1', 400, ['', 'null', '[]', '{}', '{"domain":"d"}', '{"foo":1}', '{"Domain":"d"}', '{"domain":1}',
    `${request('"hitsAddend":1').slice(0, -1)},}`, `/* no */${request('"hitsAddend":1')}`,
    request('"hitsAddend":1').replaceAll('"', "'"), `\ufeff${request('"hitsAddend":1')}`, `${request('"hitsAddend":1')} x`]],
  ['A.6#2', 200, ['1.0', '1e2', '"7"'].map((hits) => request(`"hits_addend":${hits}`))],
  ['A.6#3', 400, ['1.5', '-1', '4294967296', '""', '" 7"'].map((hits) => request(`"hits_addend":${hits}`))],
  ['A.6#4', 400, [descriptor('"hitsAddend":{"value":3}')]],
  ['A.6#5', 200, [descriptor('"hitsAddend":null')]],
  ['A.6#6', 400, ['{"domain":"d","descriptors":[{"entries":[{"key":"k","value":5}]}]}']],
  ['A.6#7', 400, [limit('"hour"'), limit('"3"')]],
  ['A.6#8', 200, [limit('"HOUR"'), limit('3'), limit('7')]],
  ['A.6#9', 400, ['{"domain":"d","descriptors":[null]}']],
  ['A.6#10', 200, ['{"domain":"d","descriptors":[{}]}']],
] as const

test(`${rows.map(([row]) => row).join(' ')}: every body of the table`, async () => {
  const service = await startService({ rules: { 'd.yaml': RULES } })
  for (const [row, status, bodies] of rows) {
    for (const body of bodies)
      expect([row, body, (await postJson(service, body)).status]).toEqual([row, body, status])
  }
  expect((await postJson(service, request('"hitsAddend":1'))).status).toBe(200) // the templates themselves are valid
})
