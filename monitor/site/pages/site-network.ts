/** Network and certificate of a site, as its last full probe saw them. */
import type { networkView } from '../../api/site-detail.ts'
import { CERTIFICATE_DAYS_MIN } from '../../scoring/score.ts'
import type { SiteState } from '../../storage/snapshot.ts'
import { dateTimeTag, section } from '../components.ts'
import { glyph } from '../glyphs.ts'
import { type Content, type Html, html, isolate, join } from '../html.ts'
import type { Page } from '../page.ts'

type Network = ReturnType<typeof networkView> & { observed_at: string }

export function networkSection(page: Page, site: SiteState, network: Network): Html {
  const { m } = page
  const { cdn, asn, ips, ipv6, tls } = network
  const texts = m.sitePage
  const name = join(
    [asn.number !== null && `AS${asn.number}`, asn.name && html`<bdi>${asn.name}</bdi>`, asn.country],
    ' ',
  )
  const cdnText = cdn.provider ?? (cdn.detected ? texts.cdnUnknown : texts.cdnNone)
  return section(
    'network',
    texts.network,
    html`<dl class="facts"><dt>${texts.certificate}</dt><dd>${certificate(page, site, tls)}</dd>${
      tls && html`<dt>TLS</dt><dd>${join([tls.version, tls.alpn], m.charts.separator)}</dd>`
    }<dt>${texts.cdn}</dt><dd>${cdnText}</dd><dt>${texts.networkName}</dt><dd>${name.length === 0 ? texts.unknown : name}</dd><dt>${texts.addresses}</dt><dd class="mono">${ips.length === 0 ? '–' : ips.join(' ')}</dd><dt>IPv6</dt><dd>${ipv6 ? texts.yes : texts.no}</dd></dl>`,
    html`<p>${texts.fullProbe} ${dateTimeTag(Date.parse(network.observed_at) / 1_000)}</p>`,
  )
}

function certificate({ m, f }: Page, { url }: SiteState, tls: Network['tls']): Content {
  const { noCertificate, noCertificateHttp, validFrom, invalidFrom, daysLeft } = m.sitePage
  if (!tls) return url.startsWith('http:') ? noCertificateHttp : noCertificate
  const isLow = tls.valid && tls.days_left < CERTIFICATE_DAYS_MIN
  const until = html`${daysLeft(f, Math.max(0, tls.days_left))} ${dateTimeTag(Date.parse(tls.not_after) / 1_000)}`
  return html`${tls.valid ? isolate(validFrom, tls.issuer) : html`<span class="status status-down">${glyph('down')}${isolate(invalidFrom, tls.issuer)}</span>`}<br>${
    isLow ? html`<span class="status status-degraded">${glyph('warning')}${until}</span>` : until
  }`
}
