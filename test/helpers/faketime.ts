/**
 * A system clock of one process that a test sets, by libfaketime (Debian's package faketime). Monotonic clocks and timers are real.
 *
 *     const clock = createFakeClock()
 *     spawnService({ env: clock.env })
 *     clock.set(-3_600)      // an hour behind, from now on
 *     clock.remove()
 */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFaketime } from '../../scripts/dev/test-tools.mjs'

export interface FakeClock {
  env: Record<string, string>
  /** `aheadSec` of the system's clock; negative = behind. */
  set(aheadSec: number): void
  remove(): void
}

export function createFakeClock(): FakeClock {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-clock-'))
  const file = join(folder, 'offset')
  const set = (aheadSec: number) => {
    writeFileSync(`${file}.new`, `${aheadSec < 0 ? '' : '+'}${aheadSec}\n`)
    renameSync(`${file}.new`, file)
  }
  set(0)
  return {
    env: {
      LD_PRELOAD: findFaketime()!,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1', // read with each call
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    set,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
