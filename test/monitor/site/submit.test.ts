import { afterAll, beforeAll, expect, test } from 'vitest'
import { en } from '../../../monitor/site/messages/en.ts'
import { startSite } from './setup.ts'

let site: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  site = await startSite({ publicBaseUrl: 'https://monitor.example.org' })
})
afterAll(() => site.close())

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
  ['relay.example.com', 400, en.submit.notFull],
  ['', 400, en.submit.notFull],
  ['http://127.0.0.1/', 422, 'its address is not public'],
  ['https://user:secret@relay.example.com', 400, 'must not have a user name or password'],
])('%s is refused with its reason beside the field, which keeps its value', async (url, status, text) => {
  const sent = await site.post('/submit', { url })
  expect(sent.status).toBe(status)
  expect(sent.text).toContain(text)
  expect(sent.text).toContain('aria-invalid="true"')
  expect(sent.text).toContain('aria-describedby="url-error url-hint"')
  expect(sent.text).toContain(`value="${url}"`)
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
  expect((await site.get('/detections/not-an-id')).status).toBe(404)
})
