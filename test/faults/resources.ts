/** Samples memory and descriptors of a process while it runs, so that a bound can be checked. */
import { readdirSync } from 'node:fs'
import { readRssBytes } from '../helpers/rss.ts'

const INTERVAL_MS = 250

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
