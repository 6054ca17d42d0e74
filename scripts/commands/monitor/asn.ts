/** The table of networks, ASN_DB (spec 6.2): installed from a file that the operator has fetched. */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { loadAsnTable } from '../../../monitor/probe/asn.ts'
import { createParentFolder } from '../../../monitor/storage/path.ts'
import type { Command } from './command.ts'
import { createContext } from './context.ts'
import { note } from './output.ts'

const USUAL_RANGES = 100_000 // the combined table has some 500,000; fewer is a part of it, or one of your own

export const install: Command = {
  usage: `asn install <file>

Checks a table of networks and puts it in the place of ASN_DB, whole or not at all. The monitor and its detections then tell
whose network an address is in; a running monitor does so from its next start on. Nothing is downloaded: fetch
https://iptoasn.com/data/ip2asn-combined.tsv.gz (public domain, renewed hourly) and give its path. Packed or not, each
row is: first address, last address, AS number, country, name, with tabs between.
`,
  operands: [1, 1],
  async run({ operands: [source] }) {
    const { ASN_DB: target } = createContext().settings
    const isThere = existsSync(source)
    if (!isThere || !statSync(source).isFile()) {
      const fix = 'Fetch https://iptoasn.com/data/ip2asn-combined.tsv.gz and give its path.'
      const what = isThere ? 'is not a file.' : 'there is no such file.' // a pipe would be waited for
      throw new ConfigurationError({ code: 'ASN_DB', where: source, what, fix })
    }
    createParentFolder(target)
    const partial = `${target}.${process.pid}.partial`
    try {
      copyFileSync(source, partial) // the copy is checked: the source may change meanwhile
      const { rangesCount } = await loadAsnTable(partial, source)
      if (rangesCount === 0) {
        const fix = 'Fetch the file anew.'
        throw new ConfigurationError({ code: 'ASN_DB', where: source, what: 'has no ranges.', fix })
      }
      sync(partial)
      renameSync(partial, target)
      note(`installed ${rangesCount} ranges as ${target}; a running monitor uses them from its next start on`)
      if (rangesCount < USUAL_RANGES)
        note(`warning: the whole table has more than ${USUAL_RANGES} ranges; networks may be missing`)
    } finally {
      rmSync(partial, { force: true })
    }
    return 0
  },
}

function sync(path: string): void {
  const file = openSync(path, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
