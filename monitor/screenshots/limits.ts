/** All limits of one screenshot (spec 8.3), in one table, so that a test can change one and an operator sees what a site may cost. */

export const SCREENSHOT_LIMITS = {
  ms: 20_000, // from the start of the browser to its end, by SIGKILL
  settleMs: 2_000, // from the load event to the picture
  requests: 60, // of the page and its frames, redirects included; further ones are refused
  bytesMax: 8 * 1_024 * 1_024, // through the proxy, both directions; then its connections are cut
  memoryBytesMax: 1_024 * 1_024 * 1_024, // resident and not shared, of all processes of the browser; Linux only
  width: 1_280, // CSS pixels, one device pixel each
  height: 800,
  imageBytesMax: 400 * 1_024,
  qualities: [75, 60, 45, 30], // of WebP, tried in this order until the image is small enough
}
export type ScreenshotLimits = typeof SCREENSHOT_LIMITS
