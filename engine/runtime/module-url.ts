/**
 * Where our own files are, in a checkout (`engine/worker.ts`) and in an installed package (`dist/engine/worker.js`).
 *
 *     checkout    engine/worker.ts         examples/    package.json
 *     package     dist/engine/worker.js    examples/    package.json      Node strips no types under node_modules
 *
 * Imports are rewritten when dist/ is made; a name inside `new URL(…)` is not, so whoever starts a thread or reads a
 * file asks here.
 */

/** A source file beside `base` (an `import.meta.url`), with the extension that `base` itself has. */
export function resolveModule(relative: string, base: string): URL {
  return new URL(base.endsWith('.ts') ? relative : relative.replace(/\.ts$/, '.js'), base)
}

/** A file that is shipped as it is (`examples/config`, `package.json`), named from the root of the package. */
export function resolveRoot(path: string): URL {
  return new URL(path, new URL(import.meta.url.endsWith('.ts') ? '../../' : '../../../', import.meta.url))
}
