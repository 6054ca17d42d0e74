/**
 * Every body that the API sends or accepts, as JSON Schema (spec 2, 3, 10). Validation, tests and the OpenAPI document use them.
 */
import { opened } from './build.ts'
import { DETECTION_SCHEMAS } from './detection-schemas.ts'
import { ENUMERATIONS } from './enumerations.ts'
import type { Components } from './json-schema.ts'
import { MEASUREMENT_SCHEMAS } from './measurement-schemas.ts'
import { SERVICE_SCHEMAS } from './service-schemas.ts'
import { SITE_SCHEMAS } from './site-schemas.ts'

const ALL: Components = {
  ...SERVICE_SCHEMAS,
  ...SITE_SCHEMAS,
  ...MEASUREMENT_SCHEMAS,
  ...DETECTION_SCHEMAS,
  ...ENUMERATIONS,
}

/** `isClosed`: additional members and unknown codes are errors, as in the tests. */
export function components(isClosed: boolean): Components {
  return Object.fromEntries(
    Object.entries(ALL).map(([name, schema]) => [name, isClosed ? schema : opened(schema)]),
  )
}
