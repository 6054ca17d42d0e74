/** Samples memory and descriptors of a process while it runs, and checks that they stay within bounds. */
import { readdirSync } from 'node:fs'
import { readRssBytes } from '../helpers/rss.ts'
import type { Report } from './checks.ts'

const INTERVAL_MS = 250
const DESCRIPTORS_GROWTH_MAX = 64 // connections that are being replaced

export interface Resources {
  rssBytes: number
  descriptors: number
}

export class ResourceMeter {
  readonly first: Resources
  readonly most: Resources
  private readonly pid: number
  private readonly timer: NodeJS.Timeout

  constructor(pid: number) {
    this.pid = pid
    this.first = readResources(pid)
    this.most = { ...this.first }
    this.timer = setInterval(() => this.sample(), INTERVAL_MS)
    this.timer.unref()
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private sample(): void {
    try {
      const { rssBytes, descriptors } = readResources(this.pid)
      this.most.rssBytes = Math.max(this.most.rssBytes, rssBytes)
      this.most.descriptors = Math.max(this.most.descriptors, descriptors)
    } catch {
      this.stop() // the process has ended
    }
  }
}

function readResources(pid: number): Resources {
  return { rssBytes: readRssBytes(pid), descriptors: readdirSync(`/proc/${pid}/fd`).length }
}

/** `rssGrowthMax`: in bytes, from the first sample on. */
export function checkResources(
  { first, most }: { first: Resources; most: Resources },
  rssGrowthMax: number,
  report: Report,
): void {
  const grownMib = Math.round((most.rssBytes - first.rssBytes) / 2 ** 20)
  const maxMib = Math.round(rssGrowthMax / 2 ** 20)
  if (grownMib > maxMib) report('resources', `the service grew by ${grownMib} MiB, at most ${maxMib}`)
  const opened = most.descriptors - first.descriptors
  if (opened > DESCRIPTORS_GROWTH_MAX)
    report('resources', `the service opened ${opened} more file descriptors`)
}
