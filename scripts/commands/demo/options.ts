/** The command line of the demo. */
import { parseArgs } from 'node:util'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { listenAddress } from '../../../monitor/service/options.ts'

export const USAGE = `usage: npm run demo -- [--addr 127.0.0.1:8090] [--days 30] [--keep]

Runs the monitor on invented relays of this machine, with their history: good, slow, blocked in China, with false claims,
parked, down. A second process acts as a vantage in China. Nothing leaves this machine. Ctrl-C ends the demo and removes its
files.

  --addr   where the monitor listens: a loopback address and a port, 0 for any free one; default 127.0.0.1:8090
  --days   of history before today, 1 to 31; default 30. With fewer than 7, no site qualifies for the red board
  --keep   leaves the files in their folder, and prints its name
  --help   prints this
`
const DAYS_MAX = 31 // hours are kept for 32 days
const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1)$/
const OPTIONS = {
  addr: { type: 'string', default: '127.0.0.1:8090' },
  days: { type: 'string', default: '30' },
  keep: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h' },
} as const

export interface DemoOptions {
  host: string
  port: number
  days: number
  keepsFiles: boolean
}

/** Returns null for --help. Throws an error whose message names what is wrong. */
export function parseDemoOptions(args: readonly string[]): DemoOptions | null {
  const { values } = parseArgs({ args: [...args], options: OPTIONS })
  if (values.help) return null
  const days = Number(values.days)
  if (!/^\d{1,2}$/.test(values.days) || days < 1 || days > DAYS_MAX)
    throw optionError(
      `--days ${values.days}`,
      `is not a whole number from 1 to ${DAYS_MAX}.`,
      'Use for example 30.',
    )
  const { host, port } = listenAddress('--addr', values.addr)
  if (!LOOPBACK.test(host)) {
    const fix = 'Use a loopback address, like 127.0.0.1:8090.'
    throw optionError(`--addr ${values.addr}`, 'would show invented data to other machines.', fix)
  }
  return { host, port, days, keepsFiles: values.keep }
}

function optionError(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'DEMO_OPTION', where, what, fix, exitCode: 2 })
}
