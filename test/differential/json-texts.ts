/**
 * One request in many spellings of proto3 JSON (spec 6.3), and malformed texts.
 *
 *     {"domain":"d","hits_addend":"7"}      {"hitsAddend":7.0, "domain":"\u0064", "descriptors":null}
 *     {"domain":"d",}                       {"domain":"d","Domain":"d"}                  {"domain":1}
 *
 * Left out, because the compared version of the reference is older: the unit name WEEK (it knows number 7) and isNegativeHits.
 */
import type { Descriptor, RateLimitRequest } from '../../proto/ratelimit.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'
import type { Random } from './random.ts'

export function jsonText(random: Random, request: RateLimitRequest): string {
  const fields: string[] = []
  if (request.domain !== '' || random.chance(0.5)) fields.push(`"domain":${text(random, request.domain)}`)
  if (request.descriptors.length > 0) {
    fields.push(`"descriptors":${list(request.descriptors.map((each) => descriptorText(random, each)))}`)
  } else if (random.chance(0.5)) {
    fields.push(`"descriptors":${random.pick(['[]', 'null'])}`)
  }
  if (request.hitsAddend !== 0) fields.push(`${hitsName(random)}:${number(random, request.hitsAddend)}`)
  else if (random.chance(0.1))
    fields.push(`${hitsName(random)}:${random.pick(['0', 'null', '"0"', '0.0', '0e5'])}`)
  return blank(random) + object(random, fields) + blank(random)
}

/** Another text, mostly not a valid request. `''` is a request without body. */
export function malformedText(random: Random, request: RateLimitRequest): string | Uint8Array {
  const valid = jsonText(random, request)
  const way = random.below(5)
  if (way === 0) return random.pick(WHOLE_TEXTS)
  if (way === 1) return valid.slice(0, random.below(valid.length))
  if (way === 2) return valid + random.pick(['x', '{}', ',', ' null', '\u0000', '//', '\u00a0', '\n\n'])
  if (way === 3) return withOddField(random, request)
  const bytes = Buffer.from(valid)
  bytes[random.below(bytes.length)] = random.below(256)
  return random.chance(0.7) ? bytes : bytes.toString('utf8')
}

const WHOLE_TEXTS = [
  '', ' ', 'null', '[]', '{}', '1', '"x"', 'true', '\ufeff{}', "{'domain':'d'}", '{"domain":"d"}', '{"foo":1}',
  '{"domain":"d",}', '{/**/}', '{"Domain":"d"}', '{"domain":1}', '{"domain":"d","domain":"d","descriptors":[{}]}',
  '{"domain":"d","descriptors":[{}],"descriptors":[{}]}', '{"domain":null,"descriptors":[{}]}', '{"":1}',
  '{"domain":"d","descriptors":[null]}', '{"domain":"d","descriptors":[[]]}', '{"domain":"d","descriptors":{}}',
  '{"domain":"d","descriptors":[{}]}', '{"domain":"d","descriptors":[{}]} ', '{"__proto__":{},"domain":"d"}',
  `{"domain":"d","descriptors":${'['.repeat(20_000)}`, '{"domain":"\\ud800","descriptors":[{}]}',
  '{"domain":"\\udc00\\ud800","descriptors":[{}]}', '{"domain":"\\ud83d\\ude00","descriptors":[{}]}',
  '{"domain":"a\tb","descriptors":[{}]}', '{"domain":"a\\u0000b","descriptors":[{}]}', '{domain:"d"}',
  '{"domain":"a\\xb","descriptors":[{}]}', '{"dom\\u0061in":"d","descriptors":[{}]}',
] // biome-ignore format: a list of texts

const ODD_HITS = [
  '1.5', '-1', '-0', '4294967296', '""', '" 7"', '"7 "', '"1e2"', '1e2', '1E+2', '100e-2', '1e-1', '"0x10"', '010',
  '+1', '.5', '5.', 'true', '[]', '{}', '{"value":3}', 'NaN', '"NaN"', 'Infinity', '1e400', '"1e400"', '1e20',
  '"18446744073709551615"', '18446744073709551616', '9007199254740993', '"-0"', '"01"', '1.0', '"1.0"', '"1.5"',
  '4294967295.0', '0.1e1', '1_000', '1e0', '"+1"', 'null', '"null"', '1e1000000000', '0e1000000000', '12345678901e-10',
] // biome-ignore format: a list of texts

const ODD_UNITS = [
  '"hour"', '"3"', '"HOUR"', '3', '7', '3.0', '"Hour"', '""', 'true', '[]', '"HOUR "', '1e0', '3.5', '-1',
  '2147483648', '99', 'null', '"UNKNOWN"', '0',
] // biome-ignore format: a list of texts

/** A good request with one field that may not be what it should. Overrides go to an unknown domain (Q1). */
function withOddField(random: Random, request: RateLimitRequest): string {
  const domain = JSON.stringify(request.domain || 'd')
  const unknown = JSON.stringify(`${request.domain}~`)
  const entries = '"entries":[{"key":"a","value":"b"}]'
  const hits = random.pick(ODD_HITS)
  return random.pick([
    () => `{"domain":${domain},"descriptors":[{${entries}}],"hitsAddend":${hits}}`,
    () => `{"domain":${domain},"descriptors":[{${entries}}],"hits_addend":${hits}}`,
    () => `{"domain":${unknown},"descriptors":[{${entries},"hitsAddend":${hits}}]}`,
    () => `{"domain":${unknown},"descriptors":[{"limit":{"requests_per_unit":${hits},"unit":1}}]}`,
    () => `{"domain":${unknown},"descriptors":[{"limit":{"unit":${random.pick(ODD_UNITS)}}}]}`,
    () =>
      `{"domain":${unknown},"descriptors":[{"limit":${random.pick(['{}', 'null', '[]', '1', '{"foo":1}'])}}]}`,
    () => `{"domain":${domain},"descriptors":[{${entries}}],"hits_addend":1,"hitsAddend":1}`,
    () => `{"domain":${domain},"descriptors":[{${entries},"hits_addend":1,"hitsAddend":1}]}`,
    () => `{"domain":${domain},"descriptors":[{${entries}}],"hitsAddend":1,"hitsAddend":1}`,
    () => `{"domain":${domain},"descriptors":[{"entries":[{"key":"a","value":${random.pick(ODD_HITS)}}]}]}`,
    () => `{"domain":${domain},"descriptors":[{"entries":[${random.pick(['null', '[]', '1', '{"k":1}'])}]}]}`,
    () => `{"domain":${domain},"descriptors":[{"entries":${random.pick(['null', '{}', '[]', '"x"'])}}]}`,
    () => `{"domain":${domain},"descriptors":[{"entries":[{"key":"\\uD800"}]}]}`,
    () => `{"domain":${domain},"descriptors":[{"entries":[{"key":null,"value":null}]}]}`,
  ])()
}

function descriptorText(random: Random, { entries, limit, hitsAddend }: Descriptor): string {
  const fields: string[] = []
  if (entries.length > 0 || random.chance(0.3)) {
    const written = entries.map(({ key, value }) => {
      const pair: string[] = []
      if (key !== '' || random.chance(0.5)) pair.push(`"key":${text(random, key)}`)
      if (value !== '' || random.chance(0.5)) pair.push(`"value":${text(random, value)}`)
      return object(random, pair)
    })
    fields.push(`"entries":${list(written)}`)
  }
  if (limit !== null) {
    const count = random.chance(0.5) ? '"requestsPerUnit"' : '"requests_per_unit"'
    const isNamed = random.chance(0.7) && limit.unit >= 0 && limit.unit < 7
    const unit = isNamed ? `"${UNIT_NAMES[limit.unit]}"` : limit.unit
    fields.push(
      `"limit":${object(random, [`${count}:${number(random, limit.requestsPerUnit)}`, `"unit":${unit}`])}`,
    )
  } else if (random.chance(0.05)) {
    fields.push('"limit":null')
  }
  if (hitsAddend !== null) fields.push(`${hitsName(random)}:${number(random, hitsAddend)}`)
  else if (random.chance(0.05)) fields.push(`${hitsName(random)}:null`)
  return object(random, fields)
}

function hitsName(random: Random): string {
  return random.chance(0.5) ? '"hitsAddend"' : '"hits_addend"'
}

function number(random: Random, value: number | bigint): string {
  const way = random.below(6)
  if (way === 0) return `"${value}"`
  if (way === 1) return `${value}.0`
  if (way === 2) return `${value}e0`
  return String(value)
}

function text(random: Random, value: string): string {
  const plain = JSON.stringify(value)
  if (!random.chance(0.1)) return plain
  const escaped = Array.from({ length: value.length }, (_, i) =>
    value.charCodeAt(i).toString(16).padStart(4, '0'),
  )
  return `"${escaped.map((hex) => `\\u${hex}`).join('')}"`
}

function object(random: Random, fields: string[]): string {
  const ordered = random.chance(0.3) ? fields.toReversed() : fields
  return `{${blank(random)}${ordered.join(random.chance(0.1) ? ' ,\n' : ',')}${blank(random)}}`
}

function list(items: string[]): string {
  return `[${items.join()}]`
}

function blank(random: Random): string {
  return random.chance(0.9) ? '' : random.pick([' ', '\n', '\t \r\n'])
}
