/**
 * URLs of Sluice's own files in a checkout (`engine/worker.ts`) and an installed package (`dist/engine/worker.js`).
 *
 *     checkout    engine/worker.ts         examples/    package.json
 *     package     dist/engine/worker.js    examples/    package.json      Node strips no types below node_modules
 *
 * The build of dist/ rewrites imports but not names inside `new URL(…)`, so use these functions to start a thread or read
 * a file.
 */

/** A source file beside `base` (an `import.meta.url`), with the extension that `base` itself has. */
export function resolveModule(relative: string, base: string): URL {
  return new URL(base.endsWith('.ts') ? relative : relative.replace(/\.ts$/, '.js'), base)
}

/** A file that is shipped unchanged (`examples/config`, `package.json`), relative to the root of the package. */
export function resolveRoot(path: string): URL {
  return new URL(path, new URL(import.meta.url.endsWith('.ts') ? '../../' : '../../../', import.meta.url))
}
