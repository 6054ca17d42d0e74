/**
 * Random rule files loaded by Sluice and by envoyproxy/ratelimit: the same are accepted, with equal errors (spec 1.1 to 1.8).
 *
 *     SLUICE_REFERENCE=/path/to/ratelimit npx vitest run test/differential
 */
import { describe, expect, test } from 'vitest'
import { seed, size } from '../helpers/size.ts'
import { randomFile } from './files.ts'
import { knownLoadDifference } from './load-differences.ts'
import { fixedPart, type Loaded, type Loader, loadDifference, startLoader } from './loads.ts'
import { ABSENT, program } from './program.ts'
import { Random } from './random.ts'

const FILES = Number(process.env.SLUICE_FILES ?? size({ small: 200, full: 20_000 }))
const AGAIN_MAX = 12 // loads until an error that the reference picks at random must have shown
const FAILURES_MAX = 15
const TRIES_MAX = 80 // to make a file shorter

describe.skipIf(program === '')('beside the reference', () => {
  test.each([false, true])(`1: ${FILES} random rule files, merging %s, seed ${seed()}`, async (isMerging) => {
    const random = new Random(seed() + (isMerging ? 1 : 0))
    const loader = await startLoader(program, isMerging)
    const outcomes = { accepted: 0, refused: 0, known: {} as Record<string, number> }
    const failures: string[] = []
    try {
      for (let i = 0; i < FILES / 2 && failures.length < FAILURES_MAX; i++) {
        const texts = [randomFile(random, 'shop')]
        if (random.chance(0.15)) texts.push(randomFile(random, random.pick(['shop', 'mail'])))
        const { sluice, reference } = await loader.load(texts)
        reference.ok ? outcomes.accepted++ : outcomes.refused++
        if (await isSame(loader, sluice, reference)) continue
        const known = knownLoadDifference(texts, sluice, reference)
        if (known) outcomes.known[known.name] = (outcomes.known[known.name] ?? 0) + 1
        else failures.push(await report(loader, texts))
      }
    } finally {
      await loader.stop()
    }
    console.log(`seed ${seed()}, merging ${isMerging}: ${JSON.stringify(outcomes)}`)
    for (const text of failures) console.error(text)
    expect(failures.length).toBe(0)
  })
})

/** The reference reports any one of several errors in a file: it loads again until it reports the same as Sluice. */
async function isSame(loader: Loader, sluice: Loaded, first: Loaded): Promise<boolean> {
  let reference = first
  for (let left = AGAIN_MAX; loadDifference(sluice, reference) === 'the error' && left > 0; left--) {
    reference = await loader.loadAgain()
  }
  return loadDifference(sluice, reference) === ''
}

/** The shortest files found by leaving lines out that still show a difference. */
async function report(loader: Loader, texts: string[]): Promise<string> {
  let kept = texts
  let triesLeft = TRIES_MAX
  const differs = async (next: string[]) => {
    triesLeft--
    const { sluice, reference } = await loader.load(next)
    return !(await isSame(loader, sluice, reference)) && !knownLoadDifference(next, sluice, reference)
  }
  for (let file = 0; file < kept.length; file++) {
    for (let chunk = 16; chunk >= 1; chunk = chunk / 2) {
      for (let at = 0; at < kept[file].split('\n').length && triesLeft > 0; ) {
        const next = kept.with(file, kept[file].split('\n').toSpliced(at, chunk).join('\n'))
        if (await differs(next)) kept = next
        else at += chunk
      }
    }
  }
  const { sluice, reference } = await loader.load(kept)
  const shown = kept.map(asciiText).join('\n')
  const what = loadDifference(sluice, reference)
  return `--- ${what}, seed ${seed()}\n${shown}\nours       ${outcomeText(sluice)}\nreference  ${outcomeText(reference)}`
}

/** JSON in ASCII, so that letters that look alike differ. */
function asciiText(text: string): string {
  return JSON.stringify(text).replace(
    /[^ -~]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

function outcomeText(loaded: Loaded): string {
  return loaded.ok
    ? `accepted: ${JSON.stringify(loaded.lines)}`
    : `${fixedPart(loaded.error)} (${loaded.error})`
}

test.skipIf(program !== '')(ABSENT, (context) => context.skip(ABSENT))
