/** The table of open streams compared with a Map, with colliding ids and many at once. */
import { expect, test } from 'vitest'
import { StreamTable } from '../../../../transports/grpc/http2/stream-table.ts'
import { seed, seeded, size } from '../../../helpers/size.ts'

const STEPS = size({ small: 20_000, full: 2_000_000 })

test(`behaves like a Map in ${STEPS} steps (seed ${seed()})`, () => {
  const random = seeded(seed())
  const table = new StreamTable<string>()
  const map = new Map<number, string>()
  const gaps = [2, 2, 2, 65_536, 131_072]
  let id = 1
  let wanted = 10
  for (let step = 0; step < STEPS; step++) {
    if (step % 500 === 0) wanted = [0, 3, 30, 1_000][Math.floor(random() * 4)]
    if (map.size < wanted && random() < 0.8) {
      id = (id + gaps[Math.floor(random() * gaps.length)]) % (2 ** 31 - 1) || 1
      if (map.has(id)) continue
      map.set(id, `stream ${id}`)
      table.set(id, `stream ${id}`)
    } else {
      const ids = [...map.keys()]
      const gone = random() < 0.1 ? id + 2 : ids[Math.floor(random() * ids.length)]
      if (gone === undefined) continue
      map.delete(gone)
      if (table.get(gone) !== undefined || random() < 0.5) table.delete(gone)
    }
    expect(table.size).toBe(map.size)
    if (step % 100 === 0) {
      expect(table.values().sort()).toEqual([...map.values()].sort())
      for (const [known, stream] of map) expect(table.get(known)).toBe(stream)
      expect(table.get(id + 4)).toBe(map.get(id + 4))
    }
  }
})
