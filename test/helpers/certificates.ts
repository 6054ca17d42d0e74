/**
 * A certificate authority for one test, and what it signed; made with openssl, gone with the test's folder.
 *
 *     const files = await makeCertificates('DNS:localhost')     // what the server's certificate says it is
 *     files.ca, files.cert, files.key                           // paths, PEM
 *     await files.remove()
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Certificates {
  ca: string // of the authority
  cert: string // of the server, good for clients too
  key: string // of that one
  remove(): Promise<void>
}

const openssl = promisify(execFile)
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** `names` as openssl writes them: `DNS:localhost,IP:127.0.0.1`. */
export async function makeCertificates(names: string): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-certificates-'))
  const file = (name: string) => join(folder, name)
  const run = (...args: string[]) => openssl('openssl', args)
  await run(
    'req',
    '-x509',
    ...KEY,
    '-keyout',
    file('ca.key'),
    '-out',
    file('ca.pem'),
    '-days',
    '2',
    '-subj',
    '/CN=Test CA',
  )
  await run('req', ...KEY, '-keyout', file('key.pem'), '-out', file('request.pem'), '-subj', '/CN=test')
  await writeFile(file('names'), `subjectAltName=${names}\n`)
  await run(
    'x509',
    '-req',
    '-in',
    file('request.pem'),
    '-CA',
    file('ca.pem'),
    '-CAkey',
    file('ca.key'),
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    file('names'),
    '-out',
    file('cert.pem'),
  )
  const remove = () => rm(folder, { recursive: true, force: true })
  return { ca: file('ca.pem'), cert: file('cert.pem'), key: file('key.pem'), remove }
}
