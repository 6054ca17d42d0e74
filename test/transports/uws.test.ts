import { afterEach, expect, test } from 'vitest'
import { openUws, type UwsPort } from '../../transports/uws.ts'
import { freePort } from '../helpers/ports.ts'

const HERE = '127.0.0.1'
const opened: UwsPort[] = []
afterEach(() => {
  for (const port of opened.splice(0)) port.close()
})

function open(port: number, isExclusive: boolean): UwsPort | null {
  const found = openUws(HERE, port, (app) => app.any('/*', (res) => void res.end('')), isExclusive)
  if (found) opened.push(found)
  return found
}

// biome-ignore format: a table
test.each([
  // the first, the second, whether both listen
  [false,      false,      true],
  [true,       true,       false],
  [false,      true,       false],
  [true,       false,      false],
])('exclusive: %s, then %s: shared %s', async (first, second, isShared) => {
  const port = await freePort()
  expect(open(port, first)?.port).toBe(port)
  expect(open(port, second) !== null).toBe(isShared)
})

test('a port that was exclusive is free again once it is closed', async () => {
  const port = await freePort()
  open(port, true)!.close()
  expect(open(port, true)).not.toBeNull()
})
