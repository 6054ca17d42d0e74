/**
 * The command line of Chromium (spec 8.3). Playwright's own defaults are not used: among them are flags that allow popups and
 * lift limits on pages (`--disable-popup-blocking`, `--disable-ipc-flooding-protection`).
 *
 *     network     everything through the proxy, loopback too; no other name is resolved; no QUIC, no WebRTC beside the proxy
 *     background  nothing of the browser itself uses the network
 *     page        no prompts, no popups, no GPU; one heap has a bound
 */

export interface FlagOptions {
  proxyPort: number
  profile: string
  hasSandbox: boolean
  isTest: boolean // relays of tests and of the demo announce HTTP/2 and do not speak it
}

const FEATURES_OFF = [
  ...['AcceptCHFrame', 'AutofillServerCommunication', 'CertificateTransparencyComponentUpdater'],
  ...['DialMediaRouteProvider', 'GlobalMediaControls', 'InterestFeedContentSuggestions', 'MediaRouter'],
  ...['NetworkTimeServiceQuerying', 'OptimizationHints', 'PreconnectToSearch', 'Prerender2', 'Translate'],
  ...['WebTransport', 'WebUSB', 'WebBluetooth', 'Serial', 'DirectSockets', 'LocalNetworkAccessChecks'],
]

const FLAGS = [
  // Network.
  '--proxy-bypass-list=<-loopback>', // without it, loopback addresses are reached without the proxy
  '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
  '--disable-quic',
  '--webrtc-ip-handling-policy=disable_non_proxied_udp', // the name since Chromium 118
  '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
  // Background.
  '--disable-background-networking',
  '--disable-breakpad',
  '--disable-client-side-phishing-detection',
  '--disable-component-extensions-with-background-pages',
  '--disable-component-update',
  '--disable-default-apps',
  '--disable-domain-reliability',
  '--disable-extensions',
  '--disable-search-engine-choice-screen',
  '--disable-sync',
  '--metrics-recording-only',
  '--no-default-browser-check',
  '--no-first-run',
  '--no-pings',
  '--no-service-autorun',
  `--disable-features=${FEATURES_OFF.join()}`,
  // Pages.
  '--autoplay-policy=user-gesture-required',
  '--block-new-web-contents',
  '--deny-permission-prompts',
  '--disable-notifications',
  '--disable-gpu',
  '--disable-software-rasterizer', // no WebGL
  '--disable-dev-shm-usage', // containers have 64 MB there
  '--force-color-profile=srgb',
  '--hide-scrollbars',
  '--mute-audio',
  '--js-flags=--max-old-space-size=512', // MiB, of each renderer
  // No keyring of the desktop.
  '--password-store=basic',
  '--use-mock-keychain',
]

export function chromiumFlags({ proxyPort, profile, hasSandbox, isTest }: FlagOptions): string[] {
  return [
    '--headless',
    '--remote-debugging-pipe',
    `--user-data-dir=${profile}`,
    `--proxy-server=http://127.0.0.1:${proxyPort}`,
    ...FLAGS,
    ...(hasSandbox ? [] : ['--no-sandbox']),
    ...(isTest ? ['--disable-http2'] : []),
    'about:blank',
  ]
}
