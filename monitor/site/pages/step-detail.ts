/**
 * The details of a detection's steps in the words of the page. The API has them as short English lists, such as
 * `200, open, 4 models` (probe/steps.ts, probe/full.ts); each part that is known is put into words, any other stays as it is.
 */
import type { StepName } from '../../probe/steps.ts'
import type { Page } from '../page.ts'

const PARTS_MAX = 8

export function describeStepDetail(page: Page, name: StepName, detail: string): string {
  const parts = detail.split(', ', PARTS_MAX + 1)
  if (parts.length > PARTS_MAX) return detail
  return parts.map((part) => describePart(page, name, part)).join(page.m.charts.separator)
}

const COUNTED = /^(\d{1,6}) (address|addresses|days? left|models?|with key)$/

function describePart({ m, f }: Page, name: StepName, part: string): string {
  const { details, auth } = m.detection
  const counted = COUNTED.exec(part)
  if (counted !== null) {
    const [, count, unit] = counted
    return COUNTS[unit](m.detection, f, Number(count))
  }
  if (/^[1-5]\d\d$/.test(part)) return m.detection.httpStatus(Number(part))
  if (name === 'fingerprint' && /^[01](\.\d+)?$/.test(part)) {
    return m.sitePage.figures.confidence(f.share(Number(part)))
  }
  const known: [texts: Record<string, string>, applies: boolean][] = [
    [details.fixed, true],
    [auth, name === 'listing'],
    [m.codes.status, name === 'summary'],
    [m.codes.errors, true],
  ]
  for (const [texts, applies] of known) if (applies && Object.hasOwn(texts, part)) return texts[part]
  return part
}

type Count = (texts: Page['m']['detection'], f: Page['f'], count: number) => string
const addresses: Count = ({ details }, f, count) => details.addresses(f, count)
const daysLeft: Count = ({ details }, f, count) => details.daysLeft(f, count)
const modelsSeen: Count = (texts, f, count) => texts.modelsSeen(f, count)

/** By unit, as COUNTED matches it. */
const COUNTS: Record<string, Count> = {
  address: addresses,
  addresses,
  'day left': daysLeft,
  'days left': daysLeft,
  model: modelsSeen,
  models: modelsSeen,
  'with key': ({ details }, f, count) => details.withKey(f, count),
}
