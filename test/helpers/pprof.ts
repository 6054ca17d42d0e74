/** `go tool pprof`, with which operators read the profiles. Tests that need it are skipped without Go. */
import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { onTestFinished, type TestContext } from 'vitest'

const run = promisify(execFile)

const go = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'go'))
  .find(existsSync)

/** Skips the test and logs why. Go is too large to be installed for it. */
export function needsGo(context: TestContext): void {
  if (go) return
  const why = 'there is no `go` in PATH, so the profile is not read'
  console.log(`skipped: ${why}`)
  context.skip(why)
}

/** Standard output of `go tool pprof <flags>` for a profile. */
export async function pprof(profile: Uint8Array, ...flags: string[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pprof-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'profile.pb.gz')
  writeFileSync(file, profile)
  const { stdout } = await run(go!, ['tool', 'pprof', ...flags, file])
  return stdout
}
