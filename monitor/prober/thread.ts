/** The prober's thread: all outgoing connections are made here, so no response of the API waits for them. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { handleInspections } from '../../engine/runtime/inspection/inspected-thread.ts'
import { Egress, egressSettings } from '../egress/egress.ts'
import { LIMITS } from '../egress/limits.ts'
import { openAsnTable } from '../probe/asn.ts'
import type { FromProber, ProberData, ToProber } from './messages.ts'
import { Prober } from './prober.ts'

const METRICS_MS = 1_000

const port = parentPort as MessagePort
const send = (message: FromProber) => port.postMessage(message)
const { settings, version, ownHosts } = workerData as ProberData

handleInspections('monitor prober')
const egress = new Egress({ settings: egressSettings(process.env), version, ownHosts })
const prober = new Prober({
  context: {
    egress,
    asn: await openAsnTable(settings.ASN_DB, (level, text) => send({ kind: 'log', level, text })),
    nowMs: Date.now,
    slowMs: settings.PROBE_SLOW_MS,
  },
  egress,
  region: settings.VANTAGE_REGION,
  vantage: settings.VANTAGE_NAME,
  isSingleVantage: true, // until agents are known
  intervalSec: settings.PROBE_INTERVAL_S,
  lightMax: settings.PROBE_CONCURRENCY,
  detectionsMax: settings.DETECTION_CONCURRENCY,
  repeatsMax: settings.PROBE_RETRIES,
  connectivityUrls: settings.CONNECTIVITY_CHECK_URLS,
  send,
})
let lastMs = performance.now()
const metricsTimer = setInterval(() => {
  const nowMs = performance.now()
  const stalledMs = nowMs - lastMs - METRICS_MS
  lastMs = nowMs
  send({ kind: 'metrics', metrics: prober.metrics() })
  if (stalledMs < LIMITS.stallMs) return
  const text = `the prober's thread was stalled for ${(stalledMs / 1_000).toFixed(1)} s; failures during that time are not counted`
  send({ kind: 'log', level: 'warning', text })
}, METRICS_MS)
port.on('message', async (message: ToProber) => {
  if (message.kind !== 'close') return prober.receive(message)
  clearInterval(metricsTimer)
  await prober.close()
  port.close()
})
send({ kind: 'ready' })
