import { afterAll, beforeAll, expect, test } from 'vitest'
import { ApiError } from '../../../monitor/api/errors.ts'
import { en } from '../../../monitor/site/messages/en.ts'
import { zh } from '../../../monitor/site/messages/zh.ts'
import { createPage } from '../../../monitor/site/page.ts'
import { startSite } from './setup.ts'

let site: Awaited<ReturnType<typeof startSite>>
let inChinese: typeof site // with a quota of its own
beforeAll(async () => {
  inChinese = await startSite()
  site = await startSite({ publicBaseUrl: 'https://monitor.example.org' })
})
afterAll(() => {
  site.close()
  inChinese.close()
})

test('M11#4 M11#5: a form that is sent leads to the page of its detection', async () => {
  const sent = await site.post('/submit', { url: 'https://relay.example.com/v1' })
  expect(sent.status).toBe(303)
  const to = sent.headers.get('location')!
  expect(to).toMatch(/^\/detections\/[0-9a-f-]{36}$/)
  const page = await site.get(to)
  expect(page.status).toBe(200)
  expect(page.text).toContain(en.detection.queued)
  expect(page.text).toContain('<noscript><meta http-equiv="refresh" content="3"></noscript>')
  expect(page.text).toContain('<meta name="robots" content="noindex">')
})

test.each([
  ['relay.example.com', 400, 'form'],
  ['', 400, 'form'],
  ['ftp://relay.example.com', 400, 'scheme'],
  ['http://127.0.0.1/', 422, 'address'],
  ['http://[fd00::1]/', 422, 'address'],
  ['http://localhost/', 422, 'name'],
  ['https://relay.example.com:8443/', 422, 'port'],
  ['https://user:secret@relay.example.com', 400, 'user_info'],
])('%s is refused with its reason beside the field, which keeps its value', async (url, status, reason) => {
  const chinese = await inChinese.post('/submit?lang=zh-CN', { url })
  expect(chinese.text).toContain(`<span>${zh.submit.refusedUrl[reason]}</span>`)
  const sent = await site.post('/submit', { url })
  expect(sent.status).toBe(status)
  expect(sent.text).toContain(`<span>${en.submit.refusedUrl[reason]}</span>`)
  expect(sent.text).toContain('aria-invalid="true"')
  expect(sent.text).toContain('aria-describedby="url-error url-hint"')
  expect(sent.text).toContain(`value="${url}"`)
})

test('every reason of the policy and every error of the queue has a sentence in both languages', async () => {
  for (const { submit } of [en, zh]) {
    expect(Object.keys(submit.refusedUrl).sort()).toEqual([
      'address',
      'form',
      'host',
      'name',
      'opted_out',
      'own_name',
      'port',
      'scheme',
      'user_info',
    ])
  }
  const off = await startSite({ hasDetections: false })
  const sent = await off.post('/submit?lang=zh-CN', { url: 'https://relay.example.com' })
  off.close()
  expect(sent.status).toBe(503)
  expect(sent.text).toContain(zh.submit.disabled)
})

test('an error that the page does not know has the text of the API as its detail', async () => {
  const other = await startSite()
  other.detections.submit = async () => {
    throw new ApiError('too_many_pending', 'three detections are running')
  }
  const known = await other.post('/submit?lang=zh-CN', { url: 'https://relay.example.com' })
  other.detections.submit = async () => {
    throw new ApiError('version_retired', 'as of <yesterday>')
  }
  const unknown = await other.post('/submit?lang=zh-CN', { url: 'https://relay.example.com' })
  other.close()
  expect(known.text).toContain(zh.submit.refused.too_many_pending)
  expect(unknown.text).toContain(zh.submit.refusedOther)
  expect(unknown.text).toContain('<span lang="en">as of &lt;yesterday&gt;</span>')
})

test.each([
  ['cross-site', { 'sec-fetch-site': 'cross-site' }],
  ['same-site', { 'sec-fetch-site': 'same-site' }],
  ['another origin', { origin: 'https://evil.example.net' }],
])('a form of %s is refused', async (_, headers) => {
  const sent = await site.post(
    '/submit',
    { url: 'https://other.example.com' },
    headers as Record<string, string>,
  )
  expect(sent.status).toBe(403)
  expect(sent.text).toContain(en.submit.crossSite)
})

test('the form states the quota of submissions; showing it costs none', async () => {
  const first = (await site.get('/submit')).text
  const again = (await site.get('/submit')).text
  const left = (text: string) => /<b>(\d+ of 20)<\/b>/.exec(text)![1]
  expect(left(again)).toBe(left(first))
})

test('an unknown detection is a page of its own', async () => {
  const { status, text } = await site.get('/detections/not-an-id')
  expect(status).toBe(404)
  expect(text).toContain(en.errors.noDetectionText)
})

test('a form of this site is accepted whatever its Origin: with no-referrer, browsers send `null`', async () => {
  const headers = { 'sec-fetch-site': 'same-origin', origin: 'null' }
  const sent = await site.post('/submit', { url: 'https://same-origin.example.com' }, headers)
  expect(sent.status).toBe(303)
  const unknown = await site.post('/submit', { url: 'https://old-browser.example.com' }, { origin: 'null' })
  expect(unknown.status).toBe(403)
})

test.each([
  ['the form of the site itself', (host: string) => `http://${host}`, 303],
  ['a page of another host', () => 'http://evil.example.net', 403],
  ['a page of another port', (host: string) => `http://${host.split(':')[0]}:1`, 403],
  ['a page without an origin', () => 'null', 403],
])('over plain http without PUBLIC_BASE_URL, %s', async (_, toOrigin, status) => {
  const other = await startSite()
  const origin = toOrigin(other.origin.replace('http://', ''))
  const sent = await other.post('/submit', { url: 'https://relay.example.com' }, { origin })
  other.close()
  expect(sent.status).toBe(status)
})

test('the form and its errors keep the referrer for this site, so that browsers send its Origin', async () => {
  const refused = await site.post('/submit', { url: '' })
  const crossSite = await site.post('/submit', { url: '' }, { origin: 'null' })
  for (const { headers } of [await site.get('/submit'), await site.get('/submit/'), refused, crossSite])
    expect(headers.get('referrer-policy')).toBe('same-origin')
  expect((await site.get('/')).headers.get('referrer-policy')).toBe('no-referrer')
})

test('a form of another site costs a page, not a submission', async () => {
  const other = await startSite()
  const left = async () => /<b>(\d+ of 20)<\/b>/.exec((await other.get('/submit')).text)![1]
  for (let i = 0; i < 3; i++) {
    const { status, headers } = await other.post('/submit', { url: '' }, { 'sec-fetch-site': 'cross-site' })
    expect([status, headers.get('x-ratelimit-limit')]).toEqual([403, '240'])
  }
  expect(await left()).toBe('20 of 20')
  other.close()
})

test('a URL as long as the field allows is read whole, in any characters', async () => {
  const url = `https://relay.example.com/${'&'.repeat(2_022)}`
  const other = await startSite()
  const { status, text } = await other.post('/submit', { url })
  other.close()
  expect([url.length, status, text]).toEqual([2_048, 303, '<!doctype html><title>Moved</title>'])
})

test.each([
  ['a form that is too long', { method: 'POST', body: 'x'.repeat(7_169) }, '/submit', 413],
  ['a body that nothing reads', { method: 'POST', body: 'x'.repeat(4_097) }, '/leaderboard', 405],
  ['a body for an asset', { method: 'POST', body: 'x'.repeat(4_097) }, '/favicon.svg', 405],
])('%s closes the connection', async (_, request, path, status) => {
  const response = await fetch(site.origin + path, request)
  expect([response.status, response.headers.get('connection')]).toEqual([status, 'close'])
})

test('beyond the quota the page names detections, the hour and when to try again', async () => {
  const other = await startSite()
  for (let i = 0; i < 20; i++) await other.post('/submit', { url: `https://relay-${i}.example.com` })
  const { status, headers, text } = await other.post('/submit', { url: 'https://relay-21.example.com' })
  other.close()
  expect([status, headers.get('retry-after')]).toEqual([429, '3600'])
  expect(text).toContain(en.errors.tooManyDetections(createPage('en', false).f, 20, 3_600))
})
