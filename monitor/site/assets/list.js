// Filters the list in place with the public API. Without JavaScript, or without a row to clone, the form is sent.
import { stripPaths } from './strip.js'

const PAGE_SIZE = 50
const form = document.querySelector('form.filter-grid')
const table = document.querySelector('table.sites')
const sample = table?.querySelector('.row') // rows are clones of one that the server made
const words = table && JSON.parse(table.dataset.words)
const count = document.getElementById('count')
const sort = form?.elements.sort.value
const BORDERS = { S: 92, A: 80, B: 65, C: 45, D: 0 } // the lowest score of each tier
let address = location.search
const percentage = new Intl.NumberFormat(document.documentElement.lang, {
  style: 'percent',
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  roundingMode: 'floor',
})
const integer = new Intl.NumberFormat(document.documentElement.lang)
let running = null

function toQuery() {
  const query = new URLSearchParams()
  for (const [name, value] of new FormData(form)) if (value !== '' && name !== 'lang') query.set(name, value)
  return query
}

async function filter(query) {
  if (query.has('model')) return form.submit() // the server marks listed and claimed
  running?.abort()
  running = new AbortController()
  const asked = new URLSearchParams(query)
  asked.delete('lang')
  asked.set('include', 'summary')
  asked.set('limit', String(PAGE_SIZE))
  let list
  try {
    const response = await fetch(`/api/v1/sites?${asked}`, { signal: running.signal })
    if (!response.ok) throw new Error(String(response.status))
    list = await response.json()
  } catch (error) {
    if (error.name !== 'AbortError') form.submit() // the page itself says what is wrong
    return
  }
  // The page itself has what is not made here: pages of a long list, a notice for an empty one, another order.
  if (list.total === 0 || list.total > PAGE_SIZE || query.get('sort') !== sort) {
    form.submit()
    return
  }
  const group = document.createElement('tbody')
  group.className = 'group'
  group.setAttribute('role', 'rowgroup')
  group.replaceChildren(...list.sites.map(toRow))
  for (const old of [...table.tBodies]) old.remove()
  table.append(group)
  document.querySelector('.pager')?.setAttribute('hidden', '')
  updateAddress(query)
  count.hidden = false
  const text = words.matches.replace('{n}', integer.format(list.total))
  requestAnimationFrame(() => {
    count.firstElementChild.textContent = text // after it is shown, so that it is announced
  })
}

/** On a small screen the filters would hide what they found. Where they are a row of the page, nothing moves. */
function showResults() {
  const filters = form.closest('details')
  if (filters.querySelector('summary').checkVisibility()) {
    filters.open = false
    count.scrollIntoView()
  }
}

/** The address of the page, and the links that keep its filters: column heads and the other language. */
function updateAddress(query) {
  const lang = new URLSearchParams(location.search).get('lang')
  if (lang) query.set('lang', lang)
  for (const link of document.querySelectorAll('.sites thead a, .tools a[hreflang]')) {
    const target = new URL(link.href)
    const kept = new URLSearchParams(query)
    for (const name of ['sort', 'order', 'lang']) {
      const value = target.searchParams.get(name)
      if (value === null) kept.delete(name)
      else kept.set(name, value)
    }
    target.search = kept
    link.href = target.href
  }
  if (query.get('sort') === 'rank') query.delete('sort')
  address = query.size === 0 ? '' : `?${query}`
  history.pushState(null, '', `/${address}`)
}

function toRow(site) {
  const row = sample.cloneNode(true)
  const { summary } = site
  const find = (selector) => row.querySelector(selector)
  const tier = find('.tier')
  tier.className = `tier tier-${site.tier}`
  tier.lastChild.textContent = site.tier
  find('.score-value').textContent = summary.score.toFixed(1)
  const name = find('.name')
  name.querySelector('bdi').textContent = site.name
  name.href = `/sites/${site.slug}${new URLSearchParams(location.search).has('lang') ? `?lang=${document.documentElement.lang}` : ''}`
  const software = summary.software === 'unknown' ? '' : ` · ${summary.software}`
  for (const mark of row.querySelectorAll('.score .sub, .col-site .small-only, .col-site .sub ~ .sub'))
    mark.remove()
  if (isBelowScore(site)) {
    const mark = document.createElement('span')
    mark.className = 'sub'
    mark.textContent = words.capped
    find('.score').append(mark)
  }
  find('.col-site .sub').textContent = new URL(site.url).host + software
  if (words.warnedSlugs.includes(site.slug)) {
    const mark = document.createElement('span')
    mark.className = 'sub warned'
    mark.append(find('.col-now .status').cloneNode(true))
    setState(mark, ['down', 'stop', words.warned])
    find('.col-site').append(mark)
  }
  setState(find('.col-now'), words.status[summary.status])
  setState(find('.col-cn'), words.region[summary.china_state])
  setState(find('.col-overseas'), words.region[summary.overseas_state])
  find('.figure').textContent =
    summary.availability_30d === null ? words.notMeasured : percentage.format(summary.availability_30d)
  const days = summary.days.filter((day) => day !== null).length
  const week =
    summary.availability_7d === null ? '' : `${words.week} ${percentage.format(summary.availability_7d)}`
  find('.col-availability .sub').textContent = days < 7 ? words.daysOnly[days] : week
  const { latency_p50_ms: ms } = summary
  find('.col-first-byte').textContent = ms === null ? '–' : `${integer.format(ms)} ms`
  const probed = find('time')
  probed.dateTime = site.last_probed
  probed.textContent = site.last_probed.slice(11, 16)
  probed.title = new Date(site.last_probed).toLocaleString(document.documentElement.lang)
  drawStrip(find('.strip'), site.name, summary.days)
  return row
}

/** `state`: [class, glyph, word] */
function setState(cell, [kind, glyph, word]) {
  const status = cell.querySelector('.status')
  status.className = `status status-${kind}`
  status.querySelector('use').setAttribute('href', `#glyph-${glyph}`)
  status.querySelector('.word').textContent = word
}

/** Whether the score alone would give a better tier. */
function isBelowScore({ tier, summary }) {
  const deserved = Object.keys(BORDERS).find((each) => summary.score >= BORDERS[each])
  return BORDERS[deserved] > BORDERS[tier]
}

function drawStrip(svg, name, days) {
  const measured = days.filter((day) => day !== null)
  const lowest = measured.length === 0 ? words.notMeasured : percentage.format(Math.min(...measured))
  const label = words.strip.replace('{measured}', String(measured.length)).replace('{lowest}', lowest)
  svg.setAttribute('aria-label', name + words.separator + label)
  const kinds = { up: 'bar-up', lost: 'bar-lost', down: 'bar-down', none: 'bar-none' }
  const title = document.createElementNS('http://www.w3.org/2000/svg', 'title')
  title.textContent = label
  const paths = Object.entries(stripPaths(days)).flatMap(([kind, d]) => {
    if (d === '') return []
    const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
    path.setAttribute('class', kinds[kind])
    path.setAttribute('d', d)
    return [path]
  })
  svg.replaceChildren(title, ...paths)
}

if (form && sample) {
  if (matchMedia('(min-width: 60rem)').matches) form.action = '/' // results are in view without their fragment
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    filter(toQuery()).then(showResults)
  })
  form.addEventListener('change', () => filter(toQuery()))
  addEventListener('popstate', () => {
    if (location.search !== address) location.reload() // not for a fragment, as of the skip link
  })
}
