/** What the rows of the list say about a site. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { en } from '../../../../monitor/site/messages/en.ts'
import { zh } from '../../../../monitor/site/messages/zh.ts'
import { createSnapshot, SITES } from '../../api/fake-store.ts'
import { startSite } from '../setup.ts'
import { withModels } from './with-models.ts'

let site: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  site = await startSite()
})
afterAll(() => site.close())

test('M11#1: with a model, each site says whether it lists it, only claims it, or its list could not be read', async () => {
  site.state.snapshot = createSnapshot([...SITES.slice(0, 2), withModels(SITES[2], 0.5)], { version: 20 })
  const listed = (await site.get('/?model=GPT-5.4')).text
  const readRow = (slug: string) => listed.match(new RegExp(`href="/sites/${slug}".*?</th>`))?.[0]
  expect(readRow('alpha')).toContain(en.list.modelListed('<bdi>gpt-5.4</bdi>'))
  expect(readRow('cn-only')).toContain(en.list.modelClaimed('<bdi>gpt-5.4</bdi>'))
  const unread = (await site.get('/?model=claude-sonnet-4-6&lang=zh-CN')).text
  expect(unread).toContain(zh.list.modelUnread('<bdi>claude-sonnet-4-6</bdi>'))
  expect(unread).not.toContain(zh.list.modelClaimed('<bdi>claude-sonnet-4-6</bdi>'))
  const all = (await site.get('/')).text
  expect(all).toContain('<datalist id="models"><option value="gpt-5.4">')
  expect(all).not.toContain(en.list.modelListed('<bdi>gpt-5.4</bdi>'))
  site.state.snapshot = createSnapshot()
})

test('M11#1: sites on the black board are marked in the list and beside a detection, no others', async () => {
  const readRow = (text: string, slug: string) =>
    new RegExp(`href="/sites/${slug}(?:\\?[^"]*)?".*?</th>`).exec(text)![0]
  for (const [lang, messages] of [
    ['en', en],
    ['zh-CN', zh],
  ] as const) {
    const list = (await site.get(`/?lang=${lang}`)).text
    expect(readRow(list, 'down')).toContain(`#glyph-stop"/></svg><span class="word">${messages.site.warned}<`)
    expect(readRow(list, 'alpha')).not.toContain('warned')
  }
  const sent = await site.post('/submit', { url: 'https://down.example.com' })
  const detection = (await site.get(sent.headers.get('location')!)).text
  expect(detection).toContain(`<span class="word">${en.site.warned}</span>`)
  const other = await site.post('/submit', { url: 'https://alpha.example.com' })
  expect((await site.get(other.headers.get('location')!)).text).not.toContain('warned')
})
