/**
 * `/docs`: the API reference, rendered from the OpenAPI document. Forms lead to `/docs/try/{operationId}` (toApiPath), which
 * drops empty fields and redirects to the API; with scripts the answer is shown in place (assets/reference.js).
 */

import { CODE_KINDS, CODES, type CodeKind } from '../../api/codes.ts'
import { ApiError } from '../../api/errors.ts'
import { ENDPOINTS, type Endpoint, PATH_PARAMETERS, TAGS, type Tag } from '../../api/schema/endpoints.ts'
import type { Schema } from '../../api/schema/json-schema.ts'
import { HEADERS_OF_ALL, OTHER_HEADERS, openApi } from '../../api/schema/openapi.ts'
import { components } from '../../api/schema/resources.ts'
import { section } from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Messages } from '../messages/en.ts'
import { href, type Page, type Parameters } from '../page.ts'
import { breakable, describeValues, fieldList, inline, schemaLink } from './reference-parts.ts'

const BASE = '/api/v1'
const FIELD_CHARS_MAX = 64 // of numbers and choices, whose schema states no length
const SCHEMAS = components(false)

interface DocumentedResponse {
  'x-codes'?: readonly string[]
  content?: { 'application/json': { example?: unknown } }
}
interface Documented {
  info: { description: string }
  paths: Record<string, Record<string, { responses: Record<string, DocumentedResponse> }>>
}
const DOCUMENT = openApi({ version: '', isClosed: false }) as unknown as Documented

export function referencePage(page: Page, context: SiteContext, exampleSlug: string | null): Html {
  const { reference: m } = page.m
  return frame(
    page,
    context,
    { title: m.title, path: '/docs', generatedAtSec: null, scripts: ['reference.js'] },
    html`<div class="page-head"><h1>${m.title}</h1><p class="lead">${m.lead} <a href="/api/v1/openapi.json">openapi.json</a></p>${m.englishOnly !== '' && html`<p class="small muted">${m.englishOnly}</p>`}<ul class="notes" lang="en">${conventions()}</ul></div>
<div class="text-page">${endpointContents(page)}<div class="narrow stack reference">
${tags().map((tag) =>
  section(
    `tag-${tag.toLowerCase()}`,
    html`<span lang="en">${tag}</span>`,
    html`<p lang="en">${TAGS[tag]}</p>${ENDPOINTS.filter((each) => each.tag === tag).map((each) => endpointPart(page, context, each, exampleSlug))}`,
  ),
)}
${section('headers', m.headers, html`<p>${m.headersLead}</p>${headerList()}`)}
${section('codes', m.codes, html`<p>${m.codesLead} <a href="/api/v1/codes">/api/v1/codes</a></p>${CODE_KINDS.map((kind) => codeTable(page, kind))}`)}
${section('schemas', m.schemas, html`<p>${m.schemasLead}</p>${Object.entries(SCHEMAS).map(([name, schema]) => schemaPart(page, name, schema))}`)}</div></div>`,
  )
}

/** Throws ApiError for a value that no form sends, since its field has a maximum: it would become a Location of any length. */
export function checkFields(operationId: string, fields: URLSearchParams): void {
  const endpoint = ENDPOINTS.find(({ id }) => id === operationId)
  if (!endpoint) return
  for (const { name, schema } of listParameters(endpoint, {})) {
    const charsMax = schema.maxLength ?? FIELD_CHARS_MAX
    if ([...(fields.get(name) ?? '')].length <= charsMax) continue
    throw new ApiError('invalid_request', `${name} must have at most ${charsMax} characters`)
  }
}

/** The address of the API that a form asks for; null for an unknown operation. Empty fields are left out. */
export function toApiPath(operationId: string, fields: URLSearchParams): string | null {
  const endpoint = ENDPOINTS.find(({ id, method }) => id === operationId && method === 'GET')
  if (!endpoint) return null
  const path = endpoint.path.replace(/\{(\w+)\}/g, (_, name) => toSegment(fields.get(name)))
  const query = new URLSearchParams()
  for (const { name } of endpoint.parameters) {
    const value = fields.get(name)
    if (value) query.set(name, value)
  }
  const text = query.toString()
  return toUrl(path) + (text === '' ? '' : `?${text}`)
}

/** `path`: as in ENDPOINTS, below the version. */
function toUrl(path: string): string {
  return BASE + (path === '/' ? '' : path)
}

/** Dot segments would be resolved by the browser, to another path. */
function toSegment(value: string | null): string {
  return value === null || /^\.{0,2}$/.test(value) ? '-' : encodeURIComponent(value)
}

function tags(): Tag[] {
  return Object.keys(TAGS) as Tag[]
}

/** The list items of the document's own description. */
function conventions(): Content {
  const lines = DOCUMENT.info.description.split('\n').filter((line) => line.startsWith('- '))
  return lines.map((line) => html`<li>${inline(line.slice(2))}</li>`)
}

function endpointContents({ m }: Page): Html {
  const { reference } = m
  const links = (tag: Tag) =>
    ENDPOINTS.filter((each) => each.tag === tag).map(
      (each) =>
        html`<li><a href="#${each.id}"><span class="mono">${each.method} ${each.path}</span></a></li>`,
    )
  return html`<nav aria-label="${reference.contents}" class="contents">${tags().map((tag) => html`<div><p lang="en"><a href="#tag-${tag.toLowerCase()}">${tag}</a></p><ul>${links(tag)}</ul></div>`)}<div><ul><li><a href="#headers">${reference.headers}</a></li><li><a href="#codes">${reference.codes}</a></li><li><a href="#schemas">${reference.schemas}</a></li></ul></div></nav>`
}

function endpointPart(
  page: Page,
  context: SiteContext,
  endpoint: Endpoint,
  exampleSlug: string | null,
): Html {
  const { reference: m } = page.m
  const { id, method, path, description, success } = endpoint
  const url = toUrl(path)
  const known = { slug: exampleSlug ?? undefined }
  const parameters = listParameters(endpoint, known)
  const [first] = Object.values(success)
  const { responses } = DOCUMENT.paths[url][method.toLowerCase()]
  const example = Object.values(responses)[0].content?.['application/json'].example
  return html`<article aria-labelledby="${id}" class="endpoint"><h3 id="${id}" class="mono"><span class="method">${method}</span> ${url}</h3>
<p lang="en">${inline(description)}</p>
${parameters.length > 0 ? parameterTable(page, parameters) : html`<p class="muted">${m.noParameters}</p>`}
${method === 'GET' ? tryForm(page, endpoint, parameters) : html`<p><a href="${href(page, '/submit')}">${m.submitForm}</a></p>`}
<pre data-curl="${id}">${curl(context, endpoint, known)}</pre>
<h4>${m.response}: ${Object.keys(success).join(', ')} ${schemaLink(first)}</h4>
${fieldList(m, SCHEMAS[first])}
<details class="more"><summary>${m.exampleBody}</summary><pre>${JSON.stringify(example, null, 1)}</pre></details>
<h4>${m.errors}</h4>
<p class="codes">${listErrors(responses).map(([status, code]) => html`<span>${status} <a class="mono" href="#error-${code}">${code}</a></span> `)}</p></article>`
}

interface ListedParameter {
  name: string
  schema: Schema
  isInPath: boolean
  example: string | undefined // of the form, for a parameter of the path
}

function listParameters({ path, parameters }: Endpoint, known: Parameters): ListedParameter[] {
  const inPath = Object.keys(PATH_PARAMETERS).filter((name) => path.includes(`{${name}}`))
  return [
    ...inPath.map((name) => {
      const schema = PATH_PARAMETERS[name]
      return { name, schema, isInPath: true, example: String(known[name] ?? schema.examples![0]) }
    }),
    ...parameters.map(({ name, schema }) => ({ name, schema, isInPath: false, example: undefined })),
  ]
}

function parameterTable({ m }: Page, parameters: readonly ListedParameter[]): Html {
  const { reference } = m
  return html`<div class="scroll" role="region" aria-label="${reference.parameters}" tabindex="0"><table class="table table-tight"><caption class="visually-hidden">${reference.parameters}</caption><thead><tr><th scope="col">${reference.parameter}</th><th scope="col">${reference.meaning}</th></tr></thead><tbody>${parameters.map(
    ({ name, schema, isInPath }) =>
      html`<tr><th scope="row" class="mono">${name}</th><td><span lang="en">${inline(schema.description ?? '')}</span> <span class="sub">${isInPath && html`${reference.inPath}, ${reference.isRequired} · `}<span lang="en">${describeValues(schema)}</span>${schema.default !== undefined && html` · ${reference.byDefault} <code>${String(schema.default)}</code>`} · ${reference.example} <code>${String(schema.examples![0])}</code></span></td></tr>`,
  )}</tbody></table></div>`
}

function tryForm({ m }: Page, { id, path }: Endpoint, parameters: readonly ListedParameter[]): Html {
  const { reference } = m
  return html`<form method="get" action="/docs/try/${id}" class="try" data-try="${id}" data-path="${toUrl(path)}" data-words="${JSON.stringify({ sending: reference.sending, failed: reference.failed, shortened: reference.shortened })}" aria-label="${reference.tryIt}: GET ${path}"><div class="try-fields">${parameters.map((each) => html`<div class="field"><label class="mono" for="${id}-${each.name}">${each.name}</label>${control(id, each, reference)}</div>`)}</div><p class="actions"><button type="submit" class="button">${reference.send}</button> <span class="small muted no-script">${reference.open}</span></p><div class="answer" hidden><p role="status"></p><pre tabindex="0" aria-label="${reference.answer}"></pre></div></form>`
}

function control(
  id: string,
  { name, schema, isInPath, example }: ListedParameter,
  m: Messages['reference'],
): Html {
  if (schema.enum) {
    return html`<select id="${id}-${name}" name="${name}"><option value="">${schema.default === undefined ? m.notSet : `${schema.default} (${m.byDefault})`}</option>${schema.enum.map((value) => html`<option>${String(value)}</option>`)}</select>`
  }
  if (schema.type === 'integer') {
    return html`<input id="${id}-${name}" name="${name}" type="number" min="${schema.minimum}" max="${schema.maximum}" placeholder="${String(schema.default ?? schema.examples![0])}">`
  }
  return html`<input id="${id}-${name}" name="${name}" maxlength="${schema.maxLength}" placeholder="${String(schema.examples![0])}" autocomplete="off" spellcheck="false"${isInPath && html` required value="${example}"`}>`
}

function curl({ publicBaseUrl }: SiteContext, { id, method, path }: Endpoint, known: Parameters): string {
  const url = publicBaseUrl + toUrl(path)
  if (method === 'POST') {
    return `curl -s -H 'Content-Type: application/json' -d '{"url":"https://relay.example.com"}' '${url}'`
  }
  const filled = url.replace(/\{(\w+)\}/, (_, name) =>
    String(known[name] ?? PATH_PARAMETERS[name].examples![0]),
  )
  return `curl -s '${filled}${id === 'listSites' ? '?tier=A&limit=20' : ''}'`
}

function listErrors(responses: Record<string, DocumentedResponse>): [status: string, code: string][] {
  return Object.entries(responses).flatMap(([status, { 'x-codes': codes = [] }]) =>
    codes.map((code): [string, string] => [status, code]),
  )
}

function headerList(): Html {
  const all = Object.entries({ ...HEADERS_OF_ALL, ...OTHER_HEADERS })
  return html`<dl class="fields">${all.map(([name, { description, schema, example }]) => html`<div><dt class="mono">${name}</dt><dd lang="en">${inline(description)} <span class="sub">${describeValues(schema)} · <code>${String(example)}</code></span></dd></div>`)}</dl>`
}

function codeTable({ m }: Page, kind: CodeKind): Html {
  const { reference } = m
  const isError = kind === 'error'
  const rows = CODES.filter((each) => each.kind === kind)
  return html`<h3 id="codes-${kind}">${reference.kinds[kind]} <span class="mono muted light">${kind}</span></h3><table class="table table-tight table-codes" aria-labelledby="codes-${kind}"><thead><tr><th scope="col">${reference.code}</th><th scope="col">${reference.meaning}${m.charts.separator}${reference.action}</th></tr></thead><tbody>${rows.map(
    ({ code, http_status, meaning, action }) =>
      html`<tr id="${kind}-${code}"><th scope="row"><span class="mono">${breakable(code)}</span>${isError && html`<span class="sub">${reference.status} ${http_status}</span>`}</th><td lang="en">${inline(meaning)} <span class="sub">${inline(action)}</span></td></tr>`,
  )}</tbody></table>`
}

function schemaPart({ m }: Page, name: string, schema: Schema): Html {
  return html`<details class="more" id="schema-${name}"><summary class="mono">${name}</summary><p lang="en">${inline(schema.description ?? '')} <span class="sub">${!schema.properties && describeValues(schema)}</span></p>${fieldList(m.reference, schema)}</details>`
}
