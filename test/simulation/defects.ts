/**
 * Shows that the simulation can fail: puts one deliberate defect after the other into a throw-away copy of the product and counts how
 * many schedules it takes to find it.
 *
 *     $ node test/simulation/defects.ts                 all, from seed 1
 *     $ node test/simulation/defects.ts expiry --seed 7
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const SCHEDULES_MAX = 5_000

export interface Defect {
  name: string
  file: string
  from: string // occurs exactly once
  to: string
}

export const DEFECTS: readonly Defect[] = [
  {
    name: 'a call answered at its deadline is answered again by the late reply',
    file: 'engine/decision/engine.ts',
    from: '    requests.callbacks[request] = null\n',
    to: '',
  },
  {
    name: 'a batch whose calls have reached their deadlines is reused while in flight',
    file: 'engine/decision/engine.ts',
    from: '    requests.callbacks[request] = null\n',
    to: `    requests.callbacks[request] = null
    if (requests.callbacks.slice(0, requests.requestsCount).every((callback) => callback === null)) {
      requests.clear()
      this.spareBatches.push(requests)
    }
`,
  },
  {
    name: 'hits are sent again after the connection was cut',
    file: 'engine/stores/redis/node.ts',
    from: '      call.fail(error)\n    }\n',
    to: `      const { sample } = call
      call.fail(error)
      const again = () => this.refusal === null && this.request([['INCRBY', sample!.key, 1]], performance.now(), () => {})
      if (sample !== null) setTimeout(again, 600)
    }
`,
  },
  {
    name: 'the over-limit cache keeps degraded answers',
    file: 'engine/decision/engine.ts',
    from: '      statuses[item - first] = status\n',
    to: `      statuses[item - first] = status
      const counter = requests.counters[item]
      if (status.code === Code.OverLimit && counter !== null) this.options.localCache?.add(counter.key, 1_000)
`,
  },
  {
    name: 'counters expire a second before their window ends',
    file: 'engine/decision/engine.ts',
    from: 'jitterMaxSec === 0 ? expirySec : ',
    to: 'jitterMaxSec === 0 ? Math.max(1, expirySec - 1) : ',
  },
  {
    name: 'a cached descriptor counts one window too long in the same counter',
    file: 'engine/decision/resolved-descriptor.ts',
    from: 'start !== this.windowStart',
    to: 'start > this.windowStart + this.lengthSec',
  },
  {
    name: 'after an error reply the replies are taken for those of the next counter',
    file: 'engine/stores/redis/pipelined-batch.ts',
    from: `value, this.node, hasExpiry)
    if (hasExpiry) this.awaitExpire(result)`,
    to: `value, this.node, hasExpiry)
    if (hasExpiry && result !== FAILED) this.awaitExpire(result)`,
  },
  {
    name: 'cached descriptors keep the former version of the rules',
    file: 'engine/decision/descriptor-resolver.ts',
    from: '    this.cache.clear()\n',
    to: '',
  },
  {
    name: 'a number that is cut between two reads is taken as complete',
    file: 'engine/stores/redis/resp.ts',
    from: 'length <= SHORT_MAX && i + 1 < end && bytes[i] === CR && bytes[i + 1] === LF',
    to: 'length <= SHORT_MAX && (i === end || (i + 1 < end && bytes[i] === CR && bytes[i + 1] === LF))',
  },
  {
    name: 'a buffer is overwritten although the kernel has not taken it',
    file: 'engine/stores/redis/pipelined-batch.ts',
    from: 'if (!node.send(writer.take(), this)) writer.renew()',
    to: 'node.send(writer.take(), this)',
  },
  {
    name: 'hits are sent although the circuit breaker is open',
    file: 'engine/stores/redis/node.ts',
    from: '    if (this.breaker.isOpen) return `',
    to: '    if (this.breaker.isOpen && this.overdueCount > 0) return `',
  },
  {
    name: 'the circuit breaker stops probing after a probe that failed',
    file: 'engine/stores/circuit-breaker.ts',
    from: '      else this.scheduleProbe(this.nextProbeMs())\n',
    to: '      else if (isOk) this.scheduleProbe(this.nextProbeMs())\n',
  },
  {
    name: 'the circuit breaker does not open after failed trips in a row',
    file: 'engine/stores/circuit-breaker.ts',
    from: 'if (this.failedInRow >= failuresInRow) this.open(',
    to: 'if (this.failedInRow >= 1_000 * failuresInRow) this.open(',
  },
  {
    name: 'the circuit breaker never opens',
    file: 'engine/stores/circuit-breaker.ts',
    from: '  private open(reason: string): void {\n    this.isOpen = true',
    to: '  private open(reason: string): void {\n    if (reason !== "") return\n    this.isOpen = true',
  },
  {
    name: 'replies to calls that were given up are not counted off',
    file: 'engine/stores/redis/node.ts',
    from: '      if (call.isGivenUp) this.overdueCount--\n',
    to: '',
  },
  {
    name: 'batches that waited for capacity lose their deadlines',
    file: 'engine/decision/engine.ts',
    from: '      this.deadlines.replace(waited, requests)\n',
    to: '',
  },
  {
    name: 'local_share is ignored',
    file: 'engine/decision/store-errors.ts',
    from: 'return Math.ceil((limit.requestsPerUnit * (localShare ?? SHARE_ALL)) / SHARE_ALL)',
    to: 'return limit.requestsPerUnit + 0 * (localShare ?? SHARE_ALL)',
  },
  {
    name: 'hits that memcached has not confirmed are not added to the count',
    file: 'engine/stores/memcached/pending-increments.ts',
    from: 'return this.hitsByKey.get(key) ?? 0',
    to: 'return this.hitsByKey.has(key) ? 0 : 0',
  },
  {
    name: 'the timer of deadlines looks at the wall clock',
    file: 'engine/decision/deadlines.ts',
    from: 'const nowMs = performance.now()\n    let nextMs',
    to: 'const nowMs = Date.now() - ((this as never as { offsetMs: number }).offsetMs ??= Date.now() - performance.now())\n    let nextMs',
  },
  {
    name: 'hits counted before EXPIRE failed are not flagged as unknown',
    file: 'engine/stores/redis/pipelined-batch.ts',
    from: 'new StoreError(message, isUnknown)',
    to: 'new StoreError(message)',
  },
]

const PARTS = [
  'engine',
  'proto',
  'package.json',
  'bench/size.ts',
  'test/simulation',
  'test/engine/harness.ts',
]
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Applies a defect to the files below `root`. */
export function plant({ name, file, from, to }: Defect, root: string): void {
  const path = join(root, file)
  const text = readFileSync(path, 'utf8')
  if (text.split(from).length !== 2) throw new Error(`"${name}": its text must occur once in ${file}`)
  writeFileSync(
    path,
    text.replace(from, () => to),
  )
}

/** Schedules until the defect was found, and as what; null = not found. */
function find(defect: Defect, firstSeed: number): { schedules: number; message: string } | null {
  const copy = mkdtempSync(join(tmpdir(), 'sluice-defect-'))
  try {
    for (const part of PARTS) cpSync(join(ROOT, part), join(copy, part), { recursive: true })
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
    plant(defect, copy)
    const args = ['--seed', String(firstSeed), '--schedules', String(SCHEDULES_MAX)]
    const { stderr } = spawnSync(process.execPath, [join(copy, 'test/simulation/main.ts'), ...args], {
      encoding: 'utf8',
    })
    const found = /^seed (\d+): (.+)$/m.exec(stderr)
    return found && { schedules: Number(found[1]) - firstSeed + 1, message: found[2] }
  } finally {
    rmSync(copy, { recursive: true })
  }
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seed: { type: 'string', default: '1' } },
  })
  console.log('| defect | schedules | found as |\n|---|---|---|')
  for (const defect of DEFECTS.filter(({ name }) => positionals.every((word) => name.includes(word)))) {
    const found = find(defect, Number(values.seed))
    const [invariant] = found?.message.split(': ') ?? []
    console.log(`| ${defect.name} | ${found?.schedules ?? `not in ${SCHEDULES_MAX}`} | ${invariant ?? ''} |`)
    if (found === null) process.exitCode = 1
  }
}
