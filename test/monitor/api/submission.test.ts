import { describe, expect, test } from 'vitest'
import { checkMediaType } from '../../../monitor/detections/submission.ts'

// biome-ignore format: a table
const accepted = [
  'application/json', 'application/json;', 'application/json ;charset=utf-8', 'Application/JSON; Charset="UTF-8" ;',
]
// biome-ignore format: a table
const refused = [
  '', 'text/plain', 'application/jsonp', 'application/json; charset=latin1', 'application/json;;',
  'application/json; charset=utf-8; charset=utf-8', 'application/json; a=b',
  `application/json${' '.repeat(15_500)}!`, // 16 KiB of headers are let in
  `application/json;${' '.repeat(15_500)}`,
]

describe('1.2: the media type of a submission', () => {
  for (const type of accepted) {
    test(`accepts "${type}"`, () => expect(() => checkMediaType(type)).not.toThrow())
  }
  for (const type of refused) {
    test(`refuses "${type.slice(0, 50)}", ${type.length} characters`, () => {
      expect(() => checkMediaType(type)).toThrow('the body must be application/json')
    })
  }
})
