/** Schemas as text of the reference: type, range, unit, and the members of an object. */
import type { Schema } from '../../api/schema/json-schema.ts'
import { type Content, type Html, html, join } from '../html.ts'
import type { Messages } from '../messages/en.ts'

const OMITTED_UNITS = new Set(['number', 'ratio']) // the type or the description says it

/** Text of the document with its code spans and bold words. */
export function inline(text: string): Content {
  return text
    .split('`')
    .map((part, i) => (i % 2 === 1 ? html`<code>${part}</code>` : part.split('**').map(toBold)))
}

function toBold(part: string, i: number): Content {
  return i % 2 === 1 ? html`<b>${part}</b>` : part
}

/** A code that may be broken after its underscores. */
export function breakable(code: string): Content {
  return code.split('_').map((part, i) => (i === 0 ? part : html`_<wbr>${part}`))
}

export function schemaLink(name: string): Html {
  return html`<a class="mono" href="#schema-${name}">${name}</a>`
}

/** `integer, 1 … 200, sites` or `S, A, B, C, D`; null is left to the caller. */
export function describeValues(schema: Schema): Content {
  const { type, enum: values, const: only, minimum, maximum, maxLength, format, items } = schema
  const known = values ?? schema.anyOf?.find((each) => each.enum)?.enum
  if (known)
    return join(
      known.filter((value) => value !== null).map((value) => html`<code>${String(value)}</code>`),
      ', ',
    )
  if (only !== undefined) return html`<code>${String(only)}</code>`
  const reference = schema.$ref ?? schema.oneOf?.find((each) => each.$ref)?.$ref
  if (reference !== undefined) return schemaLink(reference.split('/').at(-1)!)
  const name = [type].flat().filter((each) => each !== 'null')[0] ?? 'any'
  if (name === 'array' && items)
    return html`array of ${describeValues(items)}, at most ${String(schema.maxItems)}`
  const range =
    minimum === undefined
      ? maxLength !== undefined && `at most ${maxLength} characters`
      : `${minimum} … ${maximum}`
  const unit = schema['x-unit'] ?? ''
  return join([name, format, range, !OMITTED_UNITS.has(unit) && unit], ', ')
}

function isNullable({ type, oneOf, anyOf }: Schema): boolean {
  const types = [type, ...(oneOf ?? []).map((each) => each.type), ...(anyOf ?? []).map((each) => each.type)]
  return types.flat().includes('null')
}

/** The members of an object; nothing for other schemas. */
export function fieldList(m: Messages['reference'], { properties, required = [] }: Schema): Content {
  if (!properties) return null
  return html`<dl class="fields">${Object.entries(properties).map(
    ([name, schema]) =>
      html`<div><dt class="mono">${name}</dt><dd><span lang="en">${inline(schema.description ?? '')}</span> <span class="sub">${isNullable(schema) && m.nullOr}<span lang="en">${describeValues(schema)}</span>${!required.includes(name) && html` · ${m.optional}`}</span></dd></div>`,
  )}</dl>`
}
