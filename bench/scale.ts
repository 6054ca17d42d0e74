/**
 * What does a decision cost the whole service, sockets included, with many rules and with two workers? Memory store, zipf keys.
 *   floor  100 rules, one worker
 *   rules  100,000 rules, one worker: nearly every user has a rule of its own
 *   two    100 rules, two workers, twice the connections
 * Worth changing when `rules` is more than 1.5 times `floor`, or `two` more than 1.1 times.
 * Processor time of the server's process per decision. Windows alternate between the services, and ratios are those of one
 * round. Printed: the median of all rounds, the lowest and the highest.
 */
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { formatSpread, LISTENING, loadWindow, START_MS_MAX } from './serving.ts'
import { size } from './size.ts'

const MANY = size({ small: 1_000, full: 100_000 })
const ROUNDS = size({ small: 1, full: 9 })
const WARMUP_ROUNDS = size({ small: 0, full: 1 })
const WINDOW = size({ small: '60s', full: '3s' })

interface Variant {
  name: string
  service: RunningService
  connections: number
  us: number[] // per decision, by round
}

const variants: Variant[] = []
try {
  await Promise.all([
    start('floor 100 rules', 100, 1),
    start(`rules ${MANY.toLocaleString('en')} rules`, MANY, 1),
    start('two   100 rules, 2 workers', 100, 2),
  ])
  for (let round = -WARMUP_ROUNDS; round < ROUNDS; round++) {
    for (const variant of variants) {
      const us = await measureUs(variant)
      if (round >= 0) variant.us.push(us)
    }
  }
  const floorUs = variants[0].us
  for (const { name, us } of variants) {
    const ratio = formatSpread(us.map((each, round) => each / floorUs[round]))
    console.log(`scale   ${name.padEnd(28)} ${formatSpread(us)} us${us === floorUs ? '' : `   ${ratio} x`}`)
  }
} finally {
  await Promise.all(variants.map(({ service }) => service.stop()))
}

async function start(name: string, rulesCount: number, workers: number): Promise<void> {
  const service = spawnService({
    rules: { 'load.yaml': formatRules(rulesCount) },
    env: { BACKEND_TYPE: 'memory', WORKERS: String(workers) },
  })
  variants.push({ name, service, connections: 4 * workers, us: [] })
  await service.logged(LISTENING, START_MS_MAX)
}

/** A rule per user, except the last, which is for all others. */
function formatRules(count: number): string {
  const limit = '    rate_limit:\n      unit: hour\n      requests_per_unit: 4000000000\n'
  let text = 'domain: load\ndescriptors:\n'
  for (let i = 0; i < count - 1; i++) {
    text += `  - key: user\n    value: u-${String(i).padStart(7, '0')}\n${limit}`
  }
  return `${text}  - key: user\n${limit}`
}

async function measureUs({ service, connections }: Variant): Promise<number> {
  return (await loadWindow(service, { connections, window: WINDOW })).cpu.server.usPerDecision
}
