/**
 * What does a decision cost the whole service, sockets and all, when there is more of something? Memory store, zipf keys.
 *   floor  100 rules, one worker
 *   rules  100,000 rules, one worker: nearly every user has a rule of its own
 *   two    100 rules, two workers on twice the connections
 * Worth changing when `rules` is more than 1.5 times `floor`, or `two` more than 1.1 times.
 * Processor time of the server's process, from the load generator; the services take turns, and ratios are those of
 * neighbours, so what drifts on the machine falls on all. The median of all rounds is printed, with their spread.
 */
import { type RunningService, spawnService } from '../test/helpers/service.ts'
import { formatSpread, loadWindow } from './serving.ts'
import { size } from './size.ts'

const MANY = size({ small: 1_000, full: 100_000 })
const ROUNDS = size({ small: 1, full: 9 })
const WINDOW = size({ small: '200ms', full: '3s' })

interface Side {
  name: string
  service: RunningService
  connections: number
  us: number[] // per decision, by round
}

const sides: Side[] = []
try {
  await start('floor 100 rules', 100, 1)
  await start(`rules ${MANY.toLocaleString('en')} rules`, MANY, 1)
  await start('two   100 rules, 2 workers', 100, 2)
  for (const side of sides) await usPerDecision(side) // code is compiled, rule objects are made
  for (let round = 0; round < ROUNDS; round++) {
    for (const side of sides) side.us.push(await usPerDecision(side))
  }
  for (const { name, us } of sides) {
    const ratio = formatSpread(us.map((each, round) => each / sides[0].us[round]))
    console.log(
      `scale   ${name.padEnd(28)} ${formatSpread(us)} us${us === sides[0].us ? '' : `   ${ratio} x`}`,
    )
  }
} finally {
  for (const { service } of sides) await service.stop()
}

async function start(name: string, rulesCount: number, workers: number): Promise<void> {
  const service = spawnService({
    rules: { 'load.yaml': rulesText(rulesCount) },
    env: { BACKEND_TYPE: 'memory', WORKERS: String(workers) },
  })
  sides.push({ name, service, connections: 4 * workers, us: [] })
  await service.logged("Listening for HTTP on '")
}

/** All but one for a user each, the last for the others. */
function rulesText(count: number): string {
  const limit = '    rate_limit:\n      unit: hour\n      requests_per_unit: 4000000000\n'
  let text = 'domain: load\ndescriptors:\n'
  for (let i = 0; i < count - 1; i++) {
    text += `  - key: user\n    value: u-${String(i).padStart(7, '0')}\n${limit}`
  }
  return `${text}  - key: user\n${limit}`
}

async function usPerDecision({ service, connections }: Side): Promise<number> {
  return (await loadWindow(service, { connections, window: WINDOW })).cpu.server.usPerDecision
}
