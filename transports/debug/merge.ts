/**
 * Profiles of several threads as one, each sample with a label that says whose it is.
 *
 *     worker 0   strings, functions, locations, samples ┐   numbered anew: equal ones become one
 *     worker 1   strings, functions, locations, samples ┴─► one profile        `go tool pprof -tags`, `-tagfocus=thread=…`
 */
import {
  Label,
  Line,
  Location,
  Function as PprofFunction,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from 'pprof-format'

export const THREAD_LABEL = 'thread'

/** All must measure the same. `comments` are shown by `go tool pprof -comments`. */
export function mergeProfiles(
  profiles: ReadonlyMap<string, Uint8Array>,
  comments: readonly string[],
): Uint8Array {
  const merged = new Merged()
  for (const [thread, bytes] of profiles) merged.add(thread, Profile.decode(bytes))
  return merged.encode(comments)
}

type Numeric = number | bigint

class Merged {
  private readonly strings = new StringTable()
  private readonly functions = new Map<string, PprofFunction>() // by name and file
  private readonly locations = new Map<string, Location>() // by function and line
  private readonly samples: Sample[] = []
  private first: Profile | null = null
  private sampleType: ValueType[] = []
  private periodType: ValueType | undefined
  private durationNanos = 0

  add(thread: string, profile: Profile): void {
    const own = profile.stringTable.strings
    const label = new Label({ key: this.strings.dedup(THREAD_LABEL), str: this.strings.dedup(thread) })
    if (this.first === null) {
      this.first = profile
      this.sampleType = profile.sampleType.map((type) => this.addType(type, own))
      this.periodType = profile.periodType && this.addType(profile.periodType, own)
    }
    this.durationNanos = Math.max(this.durationNanos, Number(profile.durationNanos))
    const functions = new Map(profile.function.map((each) => [Number(each.id), this.addFunction(each, own)]))
    const locations = new Map<number, Numeric>()
    for (const each of profile.location) locations.set(Number(each.id), this.addLocation(each, functions))
    for (const { locationId, value } of profile.sample) {
      const ids = locationId.map((id) => locations.get(Number(id))!)
      this.samples.push(new Sample({ locationId: ids, value, label: [label] }))
    }
  }

  encode(comments: readonly string[]): Uint8Array {
    return new Profile({
      sampleType: this.sampleType,
      sample: this.samples,
      location: [...this.locations.values()],
      function: [...this.functions.values()],
      stringTable: this.strings,
      timeNanos: this.first?.timeNanos,
      durationNanos: this.durationNanos,
      periodType: this.periodType,
      period: this.first?.period,
      comment: comments.map((comment) => this.strings.dedup(comment)),
    }).encode()
  }

  private addType({ type, unit }: ValueType, own: string[]): ValueType {
    return new ValueType({ type: this.text(type, own), unit: this.text(unit, own) })
  }

  private addFunction({ name, filename }: PprofFunction, own: string[]): PprofFunction {
    const key = `${own[Number(name)]}\n${own[Number(filename)]}`
    let known = this.functions.get(key)
    if (known === undefined) {
      const id = this.functions.size + 1 // 0 would be none
      const nameId = this.text(name, own)
      known = new PprofFunction({ id, name: nameId, systemName: nameId, filename: this.text(filename, own) })
      this.functions.set(key, known)
    }
    return known
  }

  /** A location is one line of one function, as in V8's profiles. */
  private addLocation({ line: [line] }: Location, functions: ReadonlyMap<number, PprofFunction>): Numeric {
    const functionId = functions.get(Number(line.functionId))!.id
    const key = `${functionId}:${line.line}`
    let known = this.locations.get(key)
    if (known === undefined) {
      known = new Location({ id: this.locations.size + 1, line: [new Line({ functionId, line: line.line })] })
      this.locations.set(key, known)
    }
    return known.id
  }

  private text(index: Numeric, own: string[]): number {
    return this.strings.dedup(own[Number(index)])
  }
}
