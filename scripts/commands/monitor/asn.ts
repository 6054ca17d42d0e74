/** `sluice monitor asn install`: installs ASN_DB, the table of networks (spec 6.2), from a file that the operator has fetched. */
import { existsSync, statSync } from 'node:fs'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { copyAtomic } from '../../../monitor/catalogue/write-atomic.ts'
import { ASN_DB as DEFAULT_PATH, loadAsnTable } from '../../../monitor/probe/asn.ts'
import { createParentFolder } from '../../../monitor/storage/path.ts'
import { note } from '../output.ts'
import type { Command } from './command.ts'
import { createContext } from './context.ts'

const USUAL_RANGES_MIN = 100_000 // the combined table has some 500,000; fewer is a part of it or a table of another origin
const NEW_TABLE_MODE = 0o644 // public data, which the user of the service must be able to read

export const install: Command = {
  usage: `asn install <file>

Checks a table of networks and replaces ASN_DB with it, atomically. A running monitor uses it from its next start on; probes
and detections then report the network of each address. Nothing is downloaded: fetch
https://iptoasn.com/data/ip2asn-combined.tsv.gz (public domain, renewed hourly) and pass its path. The file may be
compressed with gzip. Each row is: first address, last address, AS number, country, name, separated by tabs.
`,
  operands: [1, 1],
  async run({ operands: [source] }, io) {
    const { ASN_DB: target } = createContext(io).settings
    if (target === '') {
      const fix = `Set ASN_DB to a path, or unset it for its default, ${DEFAULT_PATH}.`
      throw new ConfigurationError({ code: 'ASN_DB', what: 'ASN_DB is empty and names no file.', fix })
    }
    const isThere = existsSync(source)
    if (!isThere || !statSync(source).isFile()) {
      const fix = 'Fetch https://iptoasn.com/data/ip2asn-combined.tsv.gz and give its path.'
      const what = isThere ? 'is not a file.' : 'there is no such file.' // a pipe would be waited for
      throw new ConfigurationError({ code: 'ASN_DB', where: source, what, fix })
    }
    createParentFolder(target)
    const rangesCount = await copyAtomic(source, target, {
      newMode: NEW_TABLE_MODE,
      check: (copy) => countRanges(copy, source),
    })
    note(
      io,
      `installed ${rangesCount} ranges as ${target}; a running monitor uses them from its next start on`,
    )
    if (rangesCount < USUAL_RANGES_MIN)
      note(io, `warning: the whole table has more than ${USUAL_RANGES_MIN} ranges; networks may be missing`)
    return 0
  },
}

/** Throws ConfigurationError for a table that is invalid or empty; errors name the source. */
async function countRanges(copy: string, source: string): Promise<number> {
  const { rangesCount } = await loadAsnTable(copy, source)
  if (rangesCount > 0) return rangesCount
  const fix = 'Fetch the file again.'
  throw new ConfigurationError({ code: 'ASN_DB', where: source, what: 'has no ranges.', fix })
}
