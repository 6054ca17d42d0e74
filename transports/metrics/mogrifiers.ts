/**
 * Mogrifiers (spec 7.5): patterns that turn parts of a DogStatsD name into tags. The first one that matches is applied.
 *
 *     USE_DOG_STATSD_MOGRIFIERS=rule                       ratelimit.service.rate_limit.shop.user.total_hits
 *     DOG_STATSD_MOGRIFIER_RULE_PATTERN=^ratelimit\.service\.rate_limit\.(.*)\.(.*)\.(.*)$
 *     DOG_STATSD_MOGRIFIER_RULE_NAME=ratelimit.$3          ratelimit.total_hits
 *     DOG_STATSD_MOGRIFIER_RULE_TAGS=domain:$1,rule:$2     domain:shop, rule:user
 *
 * The older names TAGGED_STATS_MOGRIFIER_… are read too; bare PATTERN, NAME and TAGS are not (Q21). re2.ts has the syntax of
 * patterns. Start errors have the texts of envoyproxy/ratelimit. Sinks call a Mogrify once per name.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { map } from '../../engine/settings/values.ts'
import { Pattern } from './re2.ts'
import type { Tags } from './tags.ts'

export interface Mogrified {
  name: string
  tags: Tags
}

interface Mogrifier {
  pattern: Pattern
  name: string
  tags: Tags
}

export type Mogrify = (name: string) => Mogrified

type Environment = Readonly<Record<string, string | undefined>>

/** Throws ConfigurationError for the first invalid mogrifier. */
export function loadMogrifiers(names: readonly string[], env: Environment): Mogrify {
  const mogrifiers = names.map((name) => load(name, env))
  return (name) => {
    for (const { pattern, name: template, tags } of mogrifiers) {
      const groups = pattern.find(name)?.groups
      if (groups === undefined) continue
      return {
        name: fillTemplate(template, groups),
        tags: tags.map(([key, value]) => [key, fillTemplate(value, groups)]),
      }
    }
    return { name, tags: [] }
  }
}

function load(name: string, env: Environment): Mogrifier {
  const text = readPattern(name, env)
  const pattern = compile(name, text)
  const template = readVariable(name, 'NAME', env).text
  if (template === '') throw invalid(`no NAME specified for mogrifier ${name}`)
  const tags = readTags(name, env)
  for (const [key, value] of tags) {
    if (key === '') throw invalid(`no key specified for tag ${key} for mogrifier ${name}`)
    if (value === '') throw invalid(`no value specified for tag ${key} for mogrifier ${name}`)
  }
  return { pattern, name: template, tags }
}

function readPattern(name: string, env: Environment): string {
  readTags(name, env) // envoyproxy/ratelimit reads all three before it checks one
  const { text } = readVariable(name, 'PATTERN', env)
  if (text === '') throw invalid(`no PATTERN specified for mogrifier ${name}`)
  return text
}

function compile(name: string, text: string): Pattern {
  try {
    return new Pattern(text)
  } catch (error) {
    throw invalid(`failed to compile pattern for ${name}: ${text}: ${(error as Error).message}`)
  }
}

function readTags(name: string, env: Environment): Tags {
  const { variableName, text } = readVariable(name, 'TAGS', env)
  try {
    return Object.entries(map.parse(text))
  } catch {
    const item = text.split(',').find((part) => part.split(':').length !== 2)
    const details = `invalid map item: ${JSON.stringify(item)}`
    throw invalid(
      `failed to load mogrifier ${name}: envconfig.Process: assigning ${variableName} to Tags: ` +
        `converting '${text}' to type map[string]string. details: ${details}`,
    )
  }
}

/** Variables are in upper case, whatever the mogrifier's name. The current name wins over the older one. */
function readVariable(name: string, part: string, env: Environment): { variableName: string; text: string } {
  const currentName = `DOG_STATSD_MOGRIFIER_${name}_${part}`.toUpperCase()
  const olderName = `TAGGED_STATS_MOGRIFIER_${name}_${part}`.toUpperCase()
  const variableName =
    env[currentName] === undefined && env[olderName] !== undefined ? olderName : currentName
  return { variableName, text: env[variableName] ?? '' }
}

function invalid(what: string): ConfigurationError {
  return new ConfigurationError({ code: 'MOGRIFIER_INVALID', what, exitCode: 2 })
}

/** `$0` is the whole match; a placeholder without a group is kept. */
function fillTemplate(template: string, groups: readonly string[]): string {
  return template.replaceAll(/\$(\d+)/g, (placeholder, digits) => groups[Number(digits)] ?? placeholder)
}
