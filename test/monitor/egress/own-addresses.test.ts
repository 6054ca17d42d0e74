/** Addresses that are ours without an interface showing it. */
import { expect, test } from 'vitest'
import { OwnAddresses } from '../../../monitor/egress/own-addresses.ts'

test('5.4: literal addresses are known at once, names after the first refresh', async () => {
  const own = new OwnAddresses(['9.9.9.9', '2620:fe::9', 'localhost', 'no..name'])
  expect(own.known).toEqual(['9.9.9.9', '2620:fe::9'])
  await own.refresh()
  expect(own.known).toContain('127.0.0.1')
})

test('5.4: too many hosts are an error', () => {
  const hosts = Array.from({ length: 65 }, (_, i) => `10.0.0.${i}`)
  expect(() => new OwnAddresses(hosts)).toThrow('65 own hosts, 64 at most')
})
