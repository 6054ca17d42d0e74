// Paths of a strip of days, for the server's pages and for rows made in the browser.
export const BAR = 6
export const STEP = 8
export const HEIGHT = 24
const LOST_MIN = 2 // a smaller loss would not be seen
const GAP = 1 // between the available and the lost part
const DOT = 2
const DOWN_BELOW = 0.5

/**
 * @param {readonly (number | null)[]} days availability 0 to 1, oldest first; null = not measured
 * @param {{ bar: number, step: number, height: number }} size
 * @returns {{ up: string, lost: string, down: string, none: string }} an SVG path per kind, '' = none of that kind
 */
export function stripPaths(days, { bar, step, height } = { bar: BAR, step: STEP, height: HEIGHT }) {
  const paths = { up: '', lost: '', down: '', none: '' }
  days.forEach((availability, day) => {
    const x = day * step
    if (availability === null) {
      paths.none += `M${x + (bar - DOT) / 2} ${height - DOT}h${DOT}v${DOT}h-${DOT}z`
      return
    }
    if (availability < DOWN_BELOW) {
      paths.down += `M${x} 0h${bar}v${height}h-${bar}z`
      return
    }
    const lost = availability === 1 ? 0 : Math.max(LOST_MIN, Math.round(Math.sqrt(1 - availability) * height))
    const up = lost === 0 ? height : height - lost - GAP
    paths.up += `M${x} 0h${bar}v${up}h-${bar}z`
    if (lost > 0) paths.lost += `M${x} ${height}h${bar}v-${lost}h-${bar}z`
  })
  return paths
}
