/** Takes one picture in a process of its own, which a test may kill or run without privileges: see browser.test.ts. */
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import { takePicture } from '../../../monitor/screenshots/browser.ts'
import { SCREENSHOT_LIMITS } from '../../../monitor/screenshots/limits.ts'
import { chromiumPath } from '../../helpers/chromium.ts'

const [url, dnsServer, port, owner, hasSandbox] = process.argv.slice(2)
const env = { NODE_ENV: 'test', EGRESS_TEST_ALLOW: '127.0.0.2', PROBE_PORTS: port }
const egress = new Egress({ settings: egressSettings(env), version: '1.0.0', dnsServers: [dnsServer] })
try {
  await takePicture(egress, {
    ...{ url, owner, executable: chromiumPath(), hasSandbox: hasSandbox === 'true' },
    acceptsAnyCertificate: false,
    limits: { ...SCREENSHOT_LIMITS, ms: 120_000, settleMs: 100 },
    signal: new AbortController().signal,
  })
  console.log('picture')
} catch (error) {
  console.log((error as Error).message)
}
