/**
 * A certificate authority for one test and certificates that it signed, made with openssl.
 *
 *     const files = await makeCertificates('DNS:localhost')     // the names of the server's certificate
 *     files.ca, files.cert, files.key                           // paths, PEM
 *     await files.issue('proxy', { names: 'DNS:proxy.test' })   // another pair of the same authority
 *     await files.remove()
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface Pair {
  cert: string
  key: string
}

export interface Certificates extends Pair {
  folder: string
  ca: string // certificate of the authority
  cert: string // of the server, valid for clients too
  key: string // of `cert`
  issue(name: string, options?: IssueOptions): Promise<Pair>
  remove(): Promise<void>
}

/** `names` as openssl writes them: `DNS:localhost,IP:127.0.0.1`. */
export interface IssueOptions {
  names?: string
  days?: number // default 2; -1 = expired yesterday
  usage?: 'serverAuth' | 'clientAuth' // default both
}

const openssl = promisify(execFile)
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** `names` of the server's certificate; `authority`: common name of the issuer. */
export async function makeCertificates(names: string, authority = 'Test CA'): Promise<Certificates> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-certificates-'))
  const file = (name: string) => join(folder, name)
  const run = (...args: string[]) => openssl('openssl', args)
  const ca = { cert: file('ca.pem'), key: file('ca.key') }
  await run(
    'req',
    '-x509',
    '-utf8',
    ...KEY,
    '-keyout',
    ca.key,
    '-out',
    ca.cert,
    '-days',
    '2',
    '-subj',
    `/CN=${authority}`,
  )

  const issue = async (name: string, options: IssueOptions = {}): Promise<Pair> => {
    const pair = { cert: file(`${name}.pem`), key: file(`${name}.key`) }
    const [request, extensions] = [file(`${name}.request`), file(`${name}.extensions`)]
    await run('req', ...KEY, '-keyout', pair.key, '-out', request, '-subj', '/CN=localhost')
    const lines = [
      ...(options.names ? [`subjectAltName=${options.names}`] : []),
      ...(options.usage ? [`extendedKeyUsage=${options.usage}`] : []),
      'basicConstraints=CA:FALSE',
    ]
    await writeFile(extensions, lines.join('\n'))
    const serial = `0x1${randomBytes(15).toString('hex')}` // not from a file, which certificates that are issued at once would share
    const signer = [
      '-CA',
      ca.cert,
      '-CAkey',
      ca.key,
      '-set_serial',
      serial,
      '-days',
      String(options.days ?? 2),
    ]
    await run('x509', '-req', '-in', request, ...signer, '-extfile', extensions, '-out', pair.cert)
    return pair
  }
  const server = await issue('server', { names })
  return {
    folder,
    ca: ca.cert,
    ...server,
    issue,
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
