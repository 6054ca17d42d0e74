/** `/docs`: the API reference, rendered from the tables that the API itself runs on. */
import { ERROR_STATUS } from '../../api/errors.ts'
import { ENDPOINTS, type Endpoint, type Parameter } from '../../api/schema/endpoints.ts'
import { section } from '../components.ts'
import { frame, type SiteContext } from '../frame.ts'
import { type Content, type Html, html } from '../html.ts'
import type { Page } from '../page.ts'

const BASE = '/api/v1'

export function referencePage(page: Page, context: SiteContext, exampleSlug: string | null): Html {
  const { m } = page
  const { codes } = m
  const tables: [string, Record<string, string>][] = [
    ['errors', codes.errors],
    ['caps', codes.caps],
    ['red', codes.redReasons],
    ['black', codes.blackReasons],
    ['notices', codes.notices],
  ]
  const errors = Object.fromEntries(
    Object.entries(ERROR_STATUS).map(([code, status]) => [code, String(status)]),
  )
  return frame(
    page,
    context,
    { title: m.texts.reference, path: '/docs', generatedAtSec: null },
    html`<div class="narrow stack"><div class="page-head"><h1>${m.texts.reference}</h1><p class="lead">${m.texts.referenceLead} <a href="/api/v1/openapi.json">openapi.json</a></p>${m.texts.englishOnly !== '' && html`<p class="small muted">${m.texts.englishOnly}</p>`}</div>
${ENDPOINTS.map((endpoint) => endpointSection(page, context, endpoint, exampleSlug))}
${section('quotas', m.texts.limits, codeTable(page, errors))}
${section(
  'codes',
  m.texts.codes,
  tables.map(([, table]) => codeTable(page, table)),
)}</div>`,
  )
}

function endpointSection(
  page: Page,
  { publicBaseUrl }: SiteContext,
  endpoint: Endpoint,
  exampleSlug: string | null,
): Html {
  const { m } = page
  const path = BASE + (endpoint.path === '/' ? '' : endpoint.path)
  const example = path.replace('{slug}', exampleSlug ?? 'example-relay')
  const isOpenable = endpoint.method === 'GET' && !example.includes('{')
  const origin = publicBaseUrl === '' ? '' : publicBaseUrl
  const curl =
    endpoint.method === 'GET'
      ? `curl -s '${origin}${example}'`
      : `curl -s -H 'Content-Type: application/json' -d '{"url":"https://relay.example.com"}' '${origin}${example}'`
  return section(
    endpoint.id,
    html`<span class="mono">${endpoint.method} ${path}</span>`,
    html`<p lang="en">${endpoint.summary}</p>${endpoint.parameters.length > 0 && parameterTable(page, endpoint.parameters)}<pre>${curl}</pre>${isOpenable && html`<p class="actions"><a href="${example}">${m.texts.tryIt}</a></p>`}`,
  )
}

function parameterTable({ m }: Page, parameters: readonly Parameter[]): Html {
  return html`<div class="scroll" role="region" aria-label="${m.texts.parameters}" tabindex="0"><table class="table table-tight"><caption class="visually-hidden">${m.texts.parameters}</caption><thead><tr><th scope="col">${m.texts.parameter}</th><th scope="col">${m.texts.meaning}</th></tr></thead><tbody>${parameters.map(
    ({ name, schema }) =>
      html`<tr><th scope="row" class="mono">${name}</th><td lang="en">${schema.description} ${describeSchema(m.texts.defaultValue, schema)}</td></tr>`,
  )}</tbody></table></div>`
}

function describeSchema(defaultWord: string, schema: Parameter['schema']): Content {
  const range = schema.enum
    ? schema.enum.join(', ')
    : schema.type === 'integer'
      ? `${schema.minimum} … ${schema.maximum}`
      : `1 … ${schema.maxLength}`
  return html`<span class="sub mono">${range}${schema.default !== undefined && ` (${defaultWord}: ${schema.default})`}</span>`
}

function codeTable({ m }: Page, table: Record<string, string>): Html {
  return html`<table class="table table-tight"><thead><tr><th scope="col">${m.texts.code}</th><th scope="col">${m.texts.meaning}</th></tr></thead><tbody>${Object.entries(table).map(([code, text]) => html`<tr><th scope="row" class="mono">${code}</th><td>${text}</td></tr>`)}</tbody></table>`
}
