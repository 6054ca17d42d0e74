/**
 * Runs the variants of one benchmark and prints the cost of one operation and its ratio to the first variant, the floor.
 *
 *     match   floor 100 rules         41.2 ns
 *     match   now   100 rules        118.9 ns    2.9 x
 */
import { Bench } from 'tinybench'
import { size } from './size.ts'

/**
 * `variants` maps a name to a function that does `operations` operations and returns a number that depends on all of
 * them; the sum is printed, so nothing is optimised away.
 */
export async function measure(
  title: string,
  operations: number,
  variants: Record<string, () => number>,
): Promise<void> {
  const iterations = size({ small: 2, full: 30 })
  const bench = new Bench({ iterations, time: 0, warmupIterations: 3, warmupTime: 0 })
  let checksum = 0
  for (const [name, run] of Object.entries(variants)) {
    bench.add(name, () => {
      checksum += run()
    })
  }
  await bench.run()
  let floorNs = 0
  for (const { name, result } of bench.tasks) {
    if (result.state !== 'completed') throw new Error(`${title} ${name}: ${result.state}`)
    const ns = (1e6 * result.latency.p50) / operations
    floorNs ||= ns
    const ratio = ns === floorNs ? '' : `${(ns / floorNs).toFixed(1).padStart(8)} x`
    console.log(`${title.padEnd(8)}${name.padEnd(28)}${ns.toFixed(1).padStart(9)} ns${ratio}`)
  }
  console.log(`${title.padEnd(8)}checksum ${checksum}`)
}
