/**
 * Prints the outcome of a test run as one line: `N passed, N failed, N skipped`.
 *
 *     node scripts/dev/test-summary.mjs results.json EXIT_CODE
 *
 * The file was written by vitest's JSON reporter, EXIT_CODE is that of the run. A run that failed without a failed test (a file
 * that cannot be imported, an unhandled error, no result) counts as one failure.
 * Plain JavaScript for Node 18 and later: it prints the line even if nothing could be installed.
 */
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

/** The summary line for the JSON text and the exit code of a run. Text that is not such a result is one failure. */
export function summarize(json, exitCode) {
  let result
  try {
    result = JSON.parse(json)
  } catch {
    result = undefined
  }
  const { numPassedTests, numFailedTests, numPendingTests, numTodoTests } = result ?? {}
  const counts = [numPassedTests, numFailedTests, numPendingTests, numTodoTests]
  if (!counts.every(Number.isSafeInteger)) return '0 passed, 1 failed, 0 skipped'
  const failed = exitCode === 0 ? numFailedTests : Math.max(1, numFailedTests)
  return `${numPassedTests} passed, ${failed} failed, ${numPendingTests + numTodoTests} skipped`
}

function readResult(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // the run ended before it could write a result
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  console.log(summarize(readResult(process.argv[2]), Number(process.argv[3])))
}
