/**
 * The environment variables of the monitor (spec 12), in a table like that of the rate limiter (engine/settings/table.ts). Scripts
 * parse both: `parseSettings(process.env, monitorRows)`.
 */
import {
  type Settings as LimiterSettings,
  type Table,
  toRows,
  type Values,
} from '../engine/settings/table.ts'
import { bool, exactWord, int, list, path, string } from '../engine/settings/values.ts'

const built = 'built'
const refuse = 'refuse'

const addressIn = exactWord('x-forwarded-for', 'forwarded', 'cf-connecting-ip', 'x-real-ip')
const prefix = int(48, 128)
const interval = int(60, 3_600)
const probes = int(1, 256)
const repeats = int(0, 5)
const millis = int(1, 60_000)
const region = exactWord('overseas', 'cn')
const shots = exactWord('auto', 'true', 'false')
const queued = int(1, 100)
const running = int(1, 16)
const natural = int(0, 2 ** 31 - 1)

/** Large sites in many places that are no relays. */
const CONNECTIVITY_CHECK_URLS =
  'https://www.cloudflare.com/cdn-cgi/trace,https://www.gstatic.com/generate_204,https://www.apple.com/library/test/success.html'

// biome-ignore format: the columns are the table
const table = {
  Monitor: [
    [bool,        built,  'MONITOR_ENABLED', 'false', 'run the public monitor of relay sites beside the rate limit service'],
    [string,      built,  'MONITOR_ADDR', '0.0.0.0:8090', 'host:port the monitor listens on'],
    [path,        built,  'MONITOR_DATA_DIR', './data', "folder of the monitor's database"],
    [path,        built,  'CATALOGUE_PATH', './catalogue.yaml', 'catalogue of the sites to monitor: a file, or a folder of *.yaml files'],
    [string,      built,  'PUBLIC_BASE_URL', '', 'public URL of the monitor, used in links, without path, query or user; empty = relative links'],
    [string,      built,  'SUPPORT_EMAIL', '', 'contact address shown to API users; empty = none'],
    [bool,        built,  'API_SHARED_CACHE', 'false', 'let a CDN cache API responses; it must remove the X-RateLimit-* headers'],
    [bool,        built,  'RATELIMIT_DRAFT_FIELDS', 'true', 'send RateLimit and RateLimit-Policy headers beside X-RateLimit-*'],
    [list,        built,  'TRUSTED_PROXIES', '', 'address ranges of proxies that are trusted to report the client address; empty = none'],
    [addressIn,   built,  'CLIENT_IP_HEADER', 'x-forwarded-for', 'header in which trusted proxies report the client address'],
    [bool,        built,  'PROXY_PROTOCOL', 'false', 'read the client address from the PROXY protocol instead; trusted proxies only'],
    [prefix,      built,  'IPV6_PREFIX', '64', 'bits of an IPv6 address that identify a client, 48 to 128'],
  ],
  'Monitor: probes': [
    [bool,        built,  'PROBER_ENABLED', 'true', 'probe the sites; false = serve stored results only'],
    [interval,    built,  'PROBE_INTERVAL_S', '300', 'seconds between two probes of a site, 60 to 3600'],
    [probes,      built,  'PROBE_CONCURRENCY', '32', 'light probes in progress at once, 1 to 256'],
    [repeats,     built,  'PROBE_RETRIES', '2', 'retries of a failed probe before it counts as a failure, 0 to 5'],
    [millis,      built,  'PROBE_SLOW_MS', '3000', 'time to first byte in ms above which a site counts as degraded, 1 to 60000'],
    [list,        built,  'CONNECTIVITY_CHECK_URLS', CONNECTIVITY_CHECK_URLS, 'URLs that detect a network failure on this side: fewer than two responses (of one URL: none) mean it has failed; empty = no check'],
    [string,      built,  'PROBE_PORTS', '80,443,3000,8000,8080,8443', 'ports that probes may connect to'],
    [string,      built,  'EGRESS_DENY', '', 'address ranges that probes must not connect to, in addition to all that are not public'],
    [string,      built,  'NAT64_PREFIX', '', 'a /96 prefix of NAT64: the embedded IPv4 address is checked instead; empty = none'],
    [string,      built,  'EGRESS_PROXY', '', 'http://[user:password@]host:port of a proxy that probes use by CONNECT; it resolves and checks names; an agent connects to its server directly'],
    [path,        built,  'ASN_DB', 'data/ip2asn-combined.tsv.gz', 'database of the networks that addresses belong to; `sluice monitor asn install` downloads it'],
    [string,      built,  'VANTAGE_NAME', 'main', 'name of the place from which this process probes'],
    [region,      built,  'VANTAGE_REGION', 'overseas', 'region of that place'],
    [string,      built,  'VANTAGE_COUNTRY', '', 'its country, two letters'],
    [string,      built,  'AGENT_ADDR', '', 'host:port on which agents at other places report, such as 0.0.0.0:8091; empty = off'],
    [string,      built,  'AGENT_SERVER', '', 'agent only: URL of its server, such as https://monitor.example.org:8091'],
    [string,      built,  'AGENT_TOKEN', '', 'agent only: the token that `sluice monitor vantage create` printed'],
    [path,        built,  'AGENT_TOKEN_FILE', '', 'agent only: file that holds the token, instead of AGENT_TOKEN'],
    [shots,       built,  'SCREENSHOTS_ENABLED', 'auto', 'take monthly screenshots of the sites; auto = if a browser is installed'],
    [path,        built,  'CHROMIUM_PATH', '', 'browser for the screenshots; empty = chromium, chromium-browser or google-chrome on PATH'],
    [bool,        built,  'SCREENSHOT_NO_SANDBOX', 'false', 'run that browser without its sandbox; required as root and where user namespaces are forbidden'],
  ],
  'Monitor: detections': [
    [bool,        built,  'DETECTIONS_ENABLED', 'true', 'let visitors request a detection of any address'],
    [natural,     built,  'DETECTION_REUSE_S', '600', 'seconds for which the result for an address is reused; 0 = never'],
    [queued,      built,  'DETECTION_QUEUE', '100', 'detections that may wait, 1 to 100'],
    [running,     built,  'DETECTION_CONCURRENCY', '4', 'detections that run at once, 1 to 16'],
    [bool,        refuse, 'DETECTION_ALLOW_KEYS', 'false', 'let visitors pass an API key of their own'],
  ],
} as const satisfies Table

export const monitorRows = toRows(table)

/** The settings of a process that runs the monitor. */
export type Settings = LimiterSettings & Values<typeof table>
