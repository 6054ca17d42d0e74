/** What a page is rendered with: its language, texts, formats and links. */
import { parseQualityValues } from '../../engine/runtime/quality-values.ts'
import { Format } from './format.ts'
import { en, type Messages } from './messages/en.ts'
import { zh } from './messages/zh.ts'

export type Language = 'en' | 'zh-CN'

const MESSAGES: Record<Language, Messages> = { en, 'zh-CN': zh }
const FORMATS: Record<Language, Format> = { en: new Format('en'), 'zh-CN': new Format('zh-CN') }

export type Parameters = Readonly<Record<string, string | number | undefined>>

export interface Page {
  language: Language
  isExplicit: boolean // chosen by ?lang=: links keep it, since there are no cookies
  m: Messages
  f: Format
}

export function createPage(language: Language, isExplicit: boolean): Page {
  return { language, isExplicit, m: MESSAGES[language], f: FORMATS[language] }
}

/** A link within the site; empty parameters are left out. */
export function href(
  { language, isExplicit }: Pick<Page, 'language' | 'isExplicit'>,
  path: string,
  parameters: Parameters = {},
): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  if (isExplicit) query.set('lang', language)
  const text = query.toString()
  return text === '' ? path : `${path}?${text}`
}

/**
 * The language of a request: `?lang=`, else the Accept-Language (RFC 9110, 12.5.4) with the highest weight that is spoken
 * here, else English.
 */
export function chooseLanguage(wanted: string | undefined, acceptLanguage: string): Page {
  const explicit = wanted === undefined ? undefined : toLanguage(wanted)
  if (explicit) return createPage(explicit, true)
  let best: Language = 'en'
  let bestWeight = 0
  for (const [tag, weight] of parseQualityValues(acceptLanguage)) {
    const language = toLanguage(tag)
    if (language && weight > bestWeight) [best, bestWeight] = [language, weight]
  }
  return createPage(best, false)
}

/** `zh`, `zh-Hans-CN`, `en-US` and the like. */
function toLanguage(tag: string): Language | undefined {
  const primary = tag.toLowerCase().split('-', 1)[0]
  return primary === 'zh' ? 'zh-CN' : primary === 'en' ? 'en' : undefined
}
