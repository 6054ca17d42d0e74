/** The landing pages of the demo's relays: one self-contained page each, in the colour of its site. */
import type { DemoSite } from './sites.ts'

const ROWS = 5

/** HTML; a visitor, a full probe and a screenshot get the same. */
export function landingPage({ name, line, colour, host, listed, claimed, now }: DemoSite): string {
  if (now === 'parked') return parkedPage(host, colour)
  const models = (listed ?? claimed).slice(0, ROWS)
  const rows = models.map((id, i) => {
    const [input, output] = [price(host, i), price(host, i) * 4]
    return `<tr><td>${id}<td>$${input.toFixed(2)}<td>$${output.toFixed(2)}`
  })
  return page(
    name,
    colour,
    `<header><b class="mark">${name[0]}</b><strong>${name}</strong><nav>Models · Prices · Console</nav></header>
<section><h1>${line}</h1><p>${(listed ?? claimed).length} models behind one OpenAI-compatible address.</p>
<code>https://${host}/v1</code></section>
<main><h2>Prices</h2><table><tr><th>Model<th>Input, 1M tokens<th>Output, 1M tokens${rows.join('')}</table></main>`,
  )
}

/** With the words that parking services use. */
function parkedPage(host: string, colour: string): string {
  const text = `<section><h1>${host}</h1><p>This domain is for sale! Buy this domain.</p></section>`
  return page(host, colour, text)
}

function page(title: string, colour: string, body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><style>
*{box-sizing:border-box}body{margin:0;font:17px/1.5 system-ui,sans-serif;color:#1c1917;background:#fafaf9}
header{display:flex;gap:.7rem;align-items:center;padding:1.1rem 8vw;background:#fff}nav{margin-left:auto;color:#57534e}
.mark{width:2.1rem;height:2.1rem;border-radius:.6rem;display:grid;place-items:center;color:#fff;background:${colour}}
section{padding:5.5rem 8vw;color:#fff;background:${colour} linear-gradient(120deg,#0004,#0000 65%)}
h1{margin:0 0 .6rem;font-size:2.9rem;line-height:1.15;max-width:18em}
code{display:inline-block;margin-top:.6rem;padding:.5rem .9rem;border-radius:.5rem;background:#0005;font-size:1rem}
main{padding:2.2rem 8vw}table{width:100%;border-collapse:collapse}td,th{padding:.5rem 0;text-align:left;border-bottom:1px solid #e7e5e4}
</style></head><body>${body}</body></html>`
}

/** Dollars, 0.15 to 4, the same in every demo. */
function price(host: string, row: number): number {
  const code = host.charCodeAt(row) * 31 + host.charCodeAt(row + 1) * 7
  return 0.15 + (code % 78) / 20
}
