/** h2spec, an HTTP/2 conformance test of others (RFC 9113, RFC 7541), against the gRPC port of a running service. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findH2spec, h2specSkipReason } from '../../scripts/dev/h2spec.mjs'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const CASES = 145
const TIMEOUT_SEC = '10' // of h2spec for one frame; a case that passes needs milliseconds
const TEST_MS_MAX = 300_000

const h2spec = findH2spec()
const skipReason = h2specSkipReason() ?? 'h2spec is not built. Run node scripts/dev/bootstrap.mjs --test.'
if (h2spec === null) console.warn(skipReason)

test(`h2spec: ${CASES} of ${CASES} cases pass`, { timeout: TEST_MS_MAX }, async (context) => {
  if (h2spec === null) return context.skip(skipReason)
  const service = await startService({ rules: { 'shop.yaml': 'domain: shop\n' }, frontend: 'http2' })
  const [host, port] = service.address('gRPC').split(':')
  const report = join(makeTemporaryFolder(), 'report.xml')
  const target = ['--host', host, '--port', port, '--path', SHOULD_RATE_LIMIT, '--timeout', TIMEOUT_SEC]
  const child = spawn(h2spec, [...target, '--junit-report', report], { stdio: 'ignore' })
  const [code] = await once(child, 'close')
  const cases = parseReport(readFileSync(report, 'utf8'))
  expect(cases.filter(({ failure }) => failure !== '')).toEqual([])
  expect([cases.length, code]).toEqual([CASES, 0])
})

interface Case {
  name: string
  failure: string // what h2spec expected and what it received; '' = passed
}

/** The cases of a JUnit report as h2spec writes it. A case is failed, in error or skipped if it has a child element. */
function parseReport(xml: string): Case[] {
  const cases = xml.matchAll(/<testcase package="([^"]*)" classname="([^"]*)"[^>]*>([\s\S]*?)<\/testcase>/g)
  return Array.from(cases, ([, section, title, content]) => ({
    name: `${section} ${title}`,
    failure: content.trim(),
  }))
}
