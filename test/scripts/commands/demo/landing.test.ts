import { expect, test } from 'vitest'
import { landingPage } from '../../../../scripts/commands/demo/landing.ts'
import { DEMO_SITES } from '../../../../scripts/commands/demo/sites.ts'

test('every relay has a page of its own: name, colour, line and prices, without anything from elsewhere', () => {
  const pages = DEMO_SITES.map(landingPage)
  expect(new Set(DEMO_SITES.map(({ colour }) => colour)).size).toBe(DEMO_SITES.length)
  for (const [i, site] of DEMO_SITES.entries()) {
    expect(pages[i]).toContain(site.colour)
    expect(pages[i]).not.toMatch(/\b(src|href)="(?!data:,")|url\(|@import/)
    if (site.now === 'parked') continue
    expect(pages[i]).toContain(`<strong>${site.name}</strong>`)
    expect(pages[i]).toContain(site.line)
    expect(pages[i].match(/<td>\$\d+\.\d\d/g)!.length).toBeGreaterThanOrEqual(6)
  }
})

test('a parked site has the words by which one is known', () => {
  const parked = DEMO_SITES.find(({ now }) => now === 'parked')!
  expect(landingPage(parked).toLowerCase()).toContain('this domain is for sale')
})
