/**
 * Merges the profiles of several threads; each sample has a label with its thread.
 *
 *     worker 0   strings, functions, locations, samples ┐   renumbered: equal entries become one
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

/** All profiles must be of one kind. `go tool pprof -comments` shows `comments`. */
export function mergeProfiles(
  profiles: ReadonlyMap<string, Uint8Array>,
  comments: readonly string[],
): Uint8Array {
  const merger = new ProfileMerger()
  for (const [thread, bytes] of profiles) merger.add(thread, Profile.decode(bytes))
  return merger.encode(comments)
}

type Integer = number | bigint

class ProfileMerger {
  private readonly strings = new StringTable()
  private readonly functions = new Map<string, PprofFunction>() // by name and file
  private readonly locations = new Map<string, Location>() // by function and line
  private readonly samples: Sample[] = []
  private first: Profile | null = null
  private sampleType: ValueType[] = []
  private periodType: ValueType | undefined
  private durationNanos = 0

  add(thread: string, profile: Profile): void {
    const strings = profile.stringTable.strings
    const label = new Label({ key: this.strings.dedup(THREAD_LABEL), str: this.strings.dedup(thread) })
    if (this.first === null) {
      this.first = profile
      this.sampleType = profile.sampleType.map((type) => this.addType(type, strings))
      this.periodType = profile.periodType && this.addType(profile.periodType, strings)
    }
    this.durationNanos = Math.max(this.durationNanos, Number(profile.durationNanos))
    const functions = new Map(
      profile.function.map((each) => [Number(each.id), this.addFunction(each, strings)]),
    )
    const locations = new Map<number, Integer>()
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

  private addType({ type, unit }: ValueType, strings: string[]): ValueType {
    return new ValueType({ type: this.internString(type, strings), unit: this.internString(unit, strings) })
  }

  private addFunction({ name, filename }: PprofFunction, strings: string[]): PprofFunction {
    const key = `${strings[Number(name)]}\n${strings[Number(filename)]}`
    let known = this.functions.get(key)
    if (known === undefined) {
      const id = this.functions.size + 1 // 0 means none
      const nameId = this.internString(name, strings)
      known = new PprofFunction({
        id,
        name: nameId,
        systemName: nameId,
        filename: this.internString(filename, strings),
      })
      this.functions.set(key, known)
    }
    return known
  }

  /** A location is one line of one function, as in V8's profiles. */
  private addLocation({ line: [line] }: Location, functions: ReadonlyMap<number, PprofFunction>): Integer {
    const functionId = functions.get(Number(line.functionId))!.id
    const key = `${functionId}:${line.line}`
    let known = this.locations.get(key)
    if (known === undefined) {
      known = new Location({ id: this.locations.size + 1, line: [new Line({ functionId, line: line.line })] })
      this.locations.set(key, known)
    }
    return known.id
  }

  private internString(index: Integer, strings: string[]): number {
    return this.strings.dedup(strings[Number(index)])
  }
}
