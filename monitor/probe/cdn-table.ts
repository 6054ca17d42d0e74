/**
 * Marks of content delivery networks (spec 6.2), as data; evaluated in cdn.ts.
 *
 *     strong   a header or alias that only the network sets       weak   one that others copy, or that a customer may set
 *
 * Ranges are those the networks publish. They change over years; a missing range costs one mark of several.
 */
export interface HeaderMark {
  provider: string
  strength: 'strong' | 'weak'
  header: string // a final `*` matches any suffix
  matches?: RegExp // of its value
}

// biome-ignore format: the columns are the table
export const HEADER_MARKS: readonly HeaderMark[] = [
  { provider: 'cloudflare', strength: 'strong', header: 'cf-ray' },
  { provider: 'cloudflare', strength: 'weak',   header: 'server', matches: /^cloudflare$/i },
  { provider: 'cloudflare', strength: 'weak',   header: 'cf-cache-status' },
  { provider: 'cloudfront', strength: 'strong', header: 'x-amz-cf-id' },
  { provider: 'cloudfront', strength: 'weak',   header: 'x-amz-cf-pop' },
  { provider: 'cloudfront', strength: 'weak',   header: 'via', matches: /cloudfront\.net/i },
  { provider: 'fastly',     strength: 'strong', header: 'x-fastly-request-id' },
  { provider: 'fastly',     strength: 'weak',   header: 'x-served-by', matches: /^cache-/i },
  { provider: 'fastly',     strength: 'weak',   header: 'via', matches: /varnish/i },
  { provider: 'akamai',     strength: 'strong', header: 'x-akamai-*' },
  { provider: 'akamai',     strength: 'weak',   header: 'server', matches: /^akamai/i },
  { provider: 'vercel',     strength: 'strong', header: 'x-vercel-id' },
  { provider: 'vercel',     strength: 'weak',   header: 'server', matches: /^vercel$/i },
  { provider: 'netlify',    strength: 'strong', header: 'x-nf-request-id' },
  { provider: 'netlify',    strength: 'weak',   header: 'server', matches: /^netlify/i },
  { provider: 'gcore',      strength: 'weak',   header: 'x-id-fe' },
  { provider: 'gcore',      strength: 'weak',   header: 'server', matches: /^gcore/i },
  { provider: 'bunny',      strength: 'strong', header: 'cdn-pullzone' },
  { provider: 'bunny',      strength: 'weak',   header: 'server', matches: /^bunnycdn/i },
  { provider: 'aliyun',     strength: 'strong', header: 'ali-swift-global-savetime' },
  { provider: 'aliyun',     strength: 'weak',   header: 'eagleid' },
  { provider: 'aliyun',     strength: 'weak',   header: 'x-swift-*' },
  { provider: 'tencent',    strength: 'weak',   header: 'x-nws-log-uuid' },
  { provider: 'tencent',    strength: 'weak',   header: 'x-cache-lookup' },
  { provider: 'edgeone',    strength: 'strong', header: 'eo-log-uuid' },
  { provider: 'edgeone',    strength: 'weak',   header: 'eo-cache-status' },
  { provider: 'esa',        strength: 'weak',   header: 'server', matches: /^esa$/i },
  { provider: 'esa',        strength: 'weak',   header: 'x-site-cache-status' },
  { provider: 'huawei',     strength: 'strong', header: 'x-hw-*' },
  { provider: 'huawei',     strength: 'weak',   header: 'x-ccdn-*' },
]

/** Suffixes of CNAMEs; all strong. */
// biome-ignore format: the columns are the table
export const CNAME_MARKS: readonly (readonly [end: string, provider: string])[] = [
  ['cdn.cloudflare.net', 'cloudflare'],  ['cloudfront.net', 'cloudfront'],      ['fastly.net', 'fastly'],
  ['fastlylb.net', 'fastly'],            ['akamaiedge.net', 'akamai'],          ['edgekey.net', 'akamai'],
  ['edgesuite.net', 'akamai'],           ['akamai.net', 'akamai'],              ['vercel-dns.com', 'vercel'],
  ['netlify.app', 'netlify'],            ['netlifyglobalcdn.com', 'netlify'],   ['gcdn.co', 'gcore'],
  ['b-cdn.net', 'bunny'],                ['kunlunsl.com', 'aliyun'],            ['kunlunca.com', 'aliyun'],
  ['kunlungr.com', 'aliyun'],            ['alikunlun.com', 'aliyun'],           ['cdn.dnsv1.com', 'tencent'],
  ['cdn.dnsv1.com.cn', 'tencent'],       ['cdntip.com', 'tencent'],             ['tdnsv5.com', 'tencent'],
  ['eo.dnse0.com', 'edgeone'],           ['edgeone.app', 'edgeone'],            ['hwcdn.net', 'huawei'],
  ['cdnhwc1.com', 'huawei'],             ['cdnhwc2.com', 'huawei'],             ['atrustdns.com', 'esa'],
]

/** All strong. */
// biome-ignore format: as published
export const RANGE_MARKS: Readonly<Record<string, readonly string[]>> = {
  cloudflare: [
    '173.245.48.0/20', '103.21.244.0/22', '103.22.200.0/22', '103.31.4.0/22', '141.101.64.0/18', '108.162.192.0/18',
    '190.93.240.0/20', '188.114.96.0/20', '197.234.240.0/22', '198.41.128.0/17', '162.158.0.0/15', '104.16.0.0/13',
    '104.24.0.0/14', '172.64.0.0/13', '131.0.72.0/22', '2400:cb00::/32', '2606:4700::/32', '2803:f800::/32',
    '2405:b500::/32', '2405:8100::/32', '2a06:98c0::/29', '2c0f:f248::/32',
  ],
  fastly: [
    '23.235.32.0/20', '43.249.72.0/22', '103.244.50.0/24', '103.245.222.0/23', '103.245.224.0/24', '104.156.80.0/20',
    '140.248.64.0/18', '140.248.128.0/17', '146.75.0.0/17', '151.101.0.0/16', '157.52.64.0/18', '167.82.0.0/17',
    '167.82.128.0/20', '167.82.160.0/20', '167.82.224.0/20', '172.111.64.0/18', '185.31.16.0/22', '199.27.72.0/21',
    '199.232.0.0/16', '2a04:4e40::/32', '2a04:4e42::/32',
  ],
  cloudfront: [
    '13.32.0.0/15', '13.35.0.0/16', '18.64.0.0/14', '18.154.0.0/15', '18.160.0.0/15', '18.238.0.0/15', '18.244.0.0/15',
    '52.84.0.0/15', '52.222.128.0/17', '54.182.0.0/16', '54.192.0.0/16', '54.230.0.0/16', '54.239.128.0/18',
    '64.252.64.0/18', '65.8.0.0/16', '65.9.0.0/17', '70.132.0.0/18', '71.152.0.0/17', '99.84.0.0/16', '99.86.0.0/16',
    '108.138.0.0/15', '130.176.0.0/17', '143.204.0.0/16', '204.246.164.0/22', '205.251.208.0/20', '216.137.32.0/19',
    '2600:9000::/28',
  ],
}
