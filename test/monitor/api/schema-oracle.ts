/**
 * JSON Schema 2020-12 by ajv: the oracle for bodies, headers and the product's own validator. Strict: an unknown keyword, an
 * unknown format or a reference that leads nowhere throws.
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import type { Components, Schema } from '../../../monitor/api/schema/json-schema.ts'

type Violation = string | null // the first one with its place; null = valid

export class SchemaOracle {
  private readonly ajv = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true })
  private readonly compiled = new Map<Schema, ValidateFunction>()

  constructor(components: Components = {}) {
    addFormats.default(this.ajv)
    this.ajv.addVocabulary(['components', 'x-unit'])
    this.ajv.addSchema({ components: { schemas: components } }, 'document')
  }

  check(schema: Schema, value: unknown): Violation {
    let validate = this.compiled.get(schema)
    if (!validate) {
      const { $ref } = schema
      validate = this.ajv.compile($ref === undefined ? schema : { $ref: `document${$ref}` })
      this.compiled.set(schema, validate)
    }
    return validate(value) ? null : this.ajv.errorsText(validate.errors, { dataVar: 'body' })
  }
}
