/**
 * Types that openapi-typescript generates from the document: every answer, written as a literal, has each member that its
 * type requires and none that its type does not know. The compiler of this repository checks it.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type Output, runProgram } from '../../../helpers/run-program.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'
import { ANSWERS_MIN, type Answer, collectAnswers, DOCUMENT } from './answers.ts'

const GENERATOR = '../../../.tools/openapi-typescript/node_modules/openapi-typescript/bin/cli.js' // put there by the bootstrap
const COMPILER = '../../../../node_modules/typescript/bin/tsc'
const OPTIONS = { strict: true, noEmit: true, skipLibCheck: false, target: 'es2022', types: [] }
const PLACES_MIN = 100 // where an unknown member must be an error

test('M10#2 openapi-typescript: every answer has exactly the members of its type', async () => {
  const answers = await collectAnswers()
  expect(answers.length).toBeGreaterThan(ANSWERS_MIN)
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'openapi.json'), JSON.stringify(DOCUMENT))
  const generated = await runNode(GENERATOR, folder, 'openapi.json', '--output', 'api.d.ts')
  expect(generated.code, generated.output).toBe(0)
  expect(generated.output).not.toMatch(/warn/i)
  const mutated = writeLiterals(folder, answers)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ compilerOptions: OPTIONS, files: ['answers.ts'] }),
  )
  const { code, output } = await runNode(COMPILER, folder, '--pretty', 'false')
  expect(code, output.slice(0, 20_000)).toBe(0)
  expect(mutated).toBeGreaterThan(PLACES_MIN)
})

/**
 * Each answer, and each kind of object in it once more with an unknown member, which must not compile (@ts-expect-error).
 * Returns in how many places a member was added.
 */
function writeLiterals(folder: string, answers: Answer[]): number {
  const lines = ["import type { paths } from './api.d.ts'"]
  const mutated = new Set<string>()
  for (const [i, answer] of answers.entries()) {
    const type = toType(answer)
    lines.push(`// ${answer.title}`)
    lines.push(`export const a${i} = ${JSON.stringify(answer.body)} satisfies ${type}`)
    if (answer.operationId === 'getOpenApi') continue // an open object: a client parses the document with a library
    for (const [place, object] of listObjects(answer.body)) {
      if (mutated.has(type + place)) continue
      object.unknown_member = 'x' // not a number, so that the types of maps refuse it, too
      const literal = JSON.stringify(answer.body)
      delete object.unknown_member
      lines.push('// @ts-expect-error an unknown member')
      lines.push(`export const m${mutated.size} = ${literal} satisfies ${type}`)
      mutated.add(type + place)
    }
  }
  writeFileSync(join(folder, 'answers.ts'), `${lines.join('\n')}\n`)
  return mutated.size
}

function toType({ path, method, status }: Answer): string {
  const body = status === 'request' ? "['requestBody']" : `['responses'][${status}]`
  return `paths['${path}']['${method}']${body}['content']['application/json']`
}

/** Every object of an answer with its place; of a list the first. */
function listObjects(body: unknown): [place: string, object: Record<string, unknown>][] {
  const found: [string, Record<string, unknown>][] = []
  const visit = (value: unknown, place: string) => {
    if (Array.isArray(value)) visit(value[0], `${place}/0`)
    else if (typeof value === 'object' && value !== null) {
      found.push([place, value as Record<string, unknown>])
      for (const [name, member] of Object.entries(value)) visit(member, `${place}/${name}`)
    }
  }
  visit(body, '')
  return found
}

function runNode(script: string, cwd: string, ...args: string[]): Promise<Output> {
  return runProgram(process.execPath, [fileURLToPath(new URL(script, import.meta.url)), ...args], { cwd })
}
