/**
 * Import cycles, type imports included: files that import each other can only be understood together. Reports one shortest
 * cycle per group of such files, as a path.
 *
 * The entry file of a thread is not an import (`resolveModule`), so a thread may import what starts it.
 */
import { join } from 'node:path'

/** Imports that may stay for now, as `from -> to`; without them there is no cycle. */
const KNOWN_IMPORTS: readonly string[] = []

/** `import … from`, `export … from`, `} from`, `import 'x'`, and `import('x')` of a value or a type. */
const IMPORTS = /\bfrom '(\.[^']+)'|^import '(\.[^']+)'|\bimport\('(\.[^']+)'/gm

/** File → the files it imports, as paths from the root. */
type ImportGraph = Map<string, string[]>

/** `sources` maps a path from the root to its text. A known import that no longer exists is a warning. */
export function checkCycles(
  sources: ReadonlyMap<string, string>,
  knownImports = KNOWN_IMPORTS,
): { diagnostics: string[]; warnings: string[] } {
  const unused = new Set(knownImports)
  const graph: ImportGraph = new Map()
  for (const [file, text] of sources) {
    const imports = findImports(file, text).filter((imported) => sources.has(imported))
    graph.set(
      file,
      imports.filter((imported) => {
        const edge = `${file} -> ${imported}`
        unused.delete(edge)
        return !knownImports.includes(edge)
      }),
    )
  }
  const diagnostics = findCycles(graph).map(
    (cycle) =>
      `${cycle[0]}: import cycle: ${[...cycle, cycle[0]].join(' -> ')}. Move what both need into a file of its own.`,
  )
  const warnings = [...unused].map(
    (edge) => `scripts/dev/import-cycles.ts: "${edge}" no longer exists. Remove it from KNOWN_IMPORTS.`,
  )
  return { diagnostics, warnings }
}

function findImports(file: string, text: string): string[] {
  const specifiers = [...text.matchAll(IMPORTS)].map(([, from, bare, dynamic]) => from ?? bare ?? dynamic)
  return [...new Set(specifiers.map((specifier) => join(file, '..', specifier)))]
}

/** A shortest cycle through the first file of each group of files that reach each other. */
function findCycles(graph: ImportGraph): string[][] {
  const cycles: string[][] = []
  const done = new Set<string>()
  for (const file of [...graph.keys()].sort()) {
    if (done.has(file)) continue
    const cycle = findShortestCycle(graph, file)
    if (!cycle) continue
    cycles.push(cycle)
    for (const other of graph.keys())
      if (isReachable(graph, file, other) && isReachable(graph, other, file)) done.add(other)
  }
  return cycles
}

function isReachable(graph: ImportGraph, from: string, to: string): boolean {
  return findPath(graph, graph.get(from)!, to) !== null
}

function findShortestCycle(graph: ImportGraph, file: string): string[] | null {
  const path = findPath(graph, graph.get(file)!, file)
  return path && [file, ...path.slice(0, -1)]
}

/** Breadth first, so the path is a shortest one. */
function findPath(graph: ImportGraph, starts: string[], to: string): string[] | null {
  const previous = new Map<string, string | null>(starts.map((start) => [start, null]))
  for (const file of previous.keys()) {
    if (file === to) {
      const path: string[] = []
      for (let at: string | null = file; at !== null; at = previous.get(at)!) path.unshift(at)
      return path
    }
    for (const next of graph.get(file)!) if (!previous.has(next)) previous.set(next, file)
  }
  return null
}
