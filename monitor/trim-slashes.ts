/** A path without the slashes at its end. `replace(/\/+$/, '')` costs the square of the length on a path of slashes. */
export function trimEndSlashes(path: string): string {
  let end = path.length
  while (end > 0 && path[end - 1] === '/') end--
  return path.slice(0, end)
}
