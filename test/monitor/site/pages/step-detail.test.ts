/** What a step of a detection found, in the words of the page. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { STEP_NAMES, type StepName } from '../../../../monitor/probe/steps.ts'
import { createPage } from '../../../../monitor/site/page.ts'
import { describeStepDetail } from '../../../../monitor/site/pages/step-detail.ts'

const en = createPage('en', false)
const zh = createPage('zh-CN', false)

describe('M11#5: details of steps', () => {
  test.each<[StepName, string, string, string]>([
    ['resolve', '1 address', '1 address', '1 个地址'],
    ['resolve', '3 addresses, IPv6 too', '3 addresses, IPv6, too', '3 个地址，也有 IPv6'],
    ['connect', '192.0.2.1', '192.0.2.1', '192.0.2.1'],
    ['connect', 'connect_refused', 'Connection refused', '连接被拒绝'],
    [
      'tls',
      'TLSv1.3, h2, 1 day left',
      'TLSv1.3, h2, certificate ends in 1 day',
      'TLSv1.3，h2，证书 1 天后到期',
    ],
    ['landing', '502', 'HTTP 502', 'HTTP 502'],
    ['listing', '200, open, 1 model', 'HTTP 200, Open, 1 model', 'HTTP 200，公开，1 个模型'],
    ['fingerprint', 'new-api v1.0.0, 0.99', 'new-api v1.0.0, confidence 99%', 'new-api v1.0.0，置信度 99%'],
    [
      'network',
      'no CDN seen, AS64500 EXAMPLE',
      'no CDN seen, AS64500 EXAMPLE',
      '未检测到 CDN，AS64500 EXAMPLE',
    ],
    ['summary', 'up', 'Up', '正常'],
    ['summary', 'down, http_5xx', 'down, Server error (HTTP 5xx)', 'down，服务器错误（HTTP 5xx）'],
  ])('%s: %s', (name, detail, english, chinese) => {
    expect(describeStepDetail(en, name, detail)).toBe(
      name === 'summary' ? english.replace(/^down/, en.m.codes.status.down) : english,
    )
    expect(describeStepDetail(zh, name, detail)).toBe(
      name === 'summary' ? chinese.replace(/^down/, zh.m.codes.status.down) : chinese,
    )
  })

  test('any other text stays as it is, also names of the prototype and long lists', () => {
    for (const text of ['constructor', '__proto__', 'x'.repeat(5_000), 'a, '.repeat(1_000), '']) {
      expect(describeStepDetail(en, 'listing', text)).toBe(text)
    }
    fc.assert(
      fc.property(fc.constantFrom(...STEP_NAMES), fc.string(), (name, text) => {
        expect(typeof describeStepDetail(zh, name, text)).toBe('string')
      }),
    )
  })
})
