/**
 * The guard against private networks, over a table that is generated from the registries' blocks: the first and last
 * address of each, its neighbours, and all the ways to write an IPv4 address inside an IPv6 one.
 */
import assert from 'node:assert/strict'
import { BlockList, isIP } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { isPublicAddress } from '../../../src/providers/transport/guarded-lookup.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

/** IANA's special-purpose blocks that are not globally reachable, and multicast. */
const blocksV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
]
const blocksV6 = [
  '::/128',
  '::1/128',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
]

const toNumber = (text: string): number => text.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const toText = (value: number): string =>
  [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.')
const hex = (value: number): string => value.toString(16)

/** Every form in which an IPv6 address can lead to an IPv4 one. */
function carriers(v4: string): readonly string[] {
  const value = toNumber(v4)
  const [high, low] = [hex(Math.floor(value / 65_536)), hex(value % 65_536)]
  return [
    `::ffff:${v4}`,
    `::ffff:${high}:${low}`,
    `0:0:0:0:0:ffff:${v4}`,
    `::FFFF:${v4}`,
    `64:ff9b::${v4}`,
    `64:ff9b::${high}:${low}`,
    `2002:${high}:${low}::`,
    `2002:${high}:${low}::1`,
  ]
}

for (const block of blocksV4) {
  test(`nothing in ${block} is public, in whatever form`, () => {
    const [first, bits] = block.split('/') as [string, string]
    const size = 2 ** (32 - Number(bits))
    const at = toNumber(first)
    for (const value of [at, at + 1, at + Math.floor(size / 2), at + size - 1]) {
      const v4 = toText(value)
      assert.equal(isPublicAddress(v4), false, v4)
      for (const v6 of carriers(v4)) assert.equal(isPublicAddress(v6), false, v6)
    }
  })
}

for (const block of blocksV6) {
  test(`nothing in ${block} is public`, () => {
    const [first, bits] = block.split('/') as [string, string]
    const list = new BlockList()
    list.addSubnet(first, Number(bits), 'ipv6')
    const samples = bits === '128' ? [first] : [first, `${first}1`, `${first}ffff:ffff`]
    for (const sample of samples) {
      assert.ok(list.check(sample, 'ipv6'), sample)
      assert.equal(isPublicAddress(sample), false, sample)
    }
  })
}

for (const address of [
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81b::200e',
  '2001:4860:4860::8888',
  '2001:200::1',
  '::ffff:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '2002:808:808::1',
  '2620:fe::fe',
]) {
  test(`${address} is public`, () => assert.equal(isPublicAddress(address), true))
}

for (const text of [
  '',
  'localhost',
  'example.com',
  '127.1',
  '2130706433',
  '0x7f.0.0.1',
  '0177.0.0.1',
  '127.0.0.01',
  '1.2.3',
  '1.2.3.4.5',
  '256.1.1.1',
  '1.2.3.-4',
  ' 8.8.8.8',
  '8.8.8.8 ',
  '8.8.8.8:80',
  '[2606:4700::1]',
  '2606:4700::1%eth0',
  '2606:4700',
  '2606:4700:::1',
  '2606::4700::1',
  '1:2:3:4:5:6:7:8:9',
  '2606:47000::1',
  '2606:4700:0:0:0:0:0:0::',
  '::8.8.8.8',
  '2606:4700::256.1.1.1',
  'g::1',
]) {
  test(`${JSON.stringify(text)} is not a public address`, () => assert.equal(isPublicAddress(text), false))
}

test(`the guard agrees with Node’s own list of blocks (SLUICE_SEED=${seed})`, () => {
  const list = new BlockList()
  for (const block of blocksV4) list.addSubnet(block.split('/')[0]!, Number(block.split('/')[1]), 'ipv4')
  fc.assert(
    fc.property(fc.ipV4(), (address) => {
      assert.equal(isPublicAddress(address), !list.check(address, 'ipv4'))
      for (const v6 of carriers(address)) assert.equal(isPublicAddress(v6), !list.check(address, 'ipv4'), v6)
    }),
    { seed, numRuns: 3_000 },
  )
  const outside = new BlockList()
  outside.addSubnet('2000::', 3, 'ipv6')
  const reserved = new BlockList()
  for (const block of blocksV6) reserved.addSubnet(block.split('/')[0]!, Number(block.split('/')[1]), 'ipv6')
  fc.assert(
    fc.property(fc.ipV6(), (address) => {
      fc.pre(isIP(address) === 6 && !/^(?:::ffff:|64:ff9b|2002)/i.test(address) && !address.includes('.'))
      assert.equal(
        isPublicAddress(address),
        outside.check(address, 'ipv6') && !reserved.check(address, 'ipv6'),
        address,
      )
    }),
    { seed, numRuns: 3_000 },
  )
})
