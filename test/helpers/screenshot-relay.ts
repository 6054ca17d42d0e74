/** Certificates for relays whose pages a browser shows: Node trusts their authority by NODE_EXTRA_CA_CERTS. */
import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import { makeCertificates } from './certificates.ts'

export async function certificatesFor(host: string) {
  const made = await makeCertificates(`DNS:${host}`)
  onTestFinished(() => made.remove())
  return {
    certificates: { cert: readFileSync(made.cert), key: readFileSync(made.key) },
    env: { NODE_EXTRA_CA_CERTS: made.ca },
  }
}
