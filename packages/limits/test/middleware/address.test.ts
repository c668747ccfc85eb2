import assert from 'node:assert/strict'
import { it } from 'node:test'
import { clientOf } from '../../src/middleware/address.ts'

const client = (address: string) => clientOf(address, 64)

it('an IPv4 address is one client, however it is written', () => {
  for (const written of ['203.0.113.7', '::ffff:203.0.113.7', '::FFFF:cb00:7107', '203.0.113.7:51234']) {
    assert.equal(client(written), '203.0.113.7')
  }
})

it('all of an IPv6 prefix is one client, however it is written', () => {
  const one = client('2001:db8:0:7::1')
  assert.equal(one, '2001:db8:0:7:0:0:0:0/64')
  for (const written of [
    '2001:db8:0:7:ffff:ffff:ffff:ffff',
    '2001:0DB8:0000:0007::',
    '[2001:db8:0:7::2]:443',
    '[2001:db8:0:7::2]',
    '2001:db8:0:7::1%eth0',
    '2001:db8:0:7::203.0.113.7',
  ]) {
    assert.equal(client(written), one)
  }
  assert.notEqual(client('2001:db8:0:8::1'), one)
  assert.equal(client('::1'), '0:0:0:0:0:0:0:0/64')
})

it('the prefix may have any length', () => {
  assert.equal(clientOf('2001:db8:abcd:7::1', 56), '2001:db8:abcd:0:0:0:0:0/56')
  assert.equal(clientOf('2001:db8:abcd:ff7::1', 60), '2001:db8:abcd:ff0:0:0:0:0/60')
  assert.equal(clientOf('2001:db8::1', 128), '2001:db8:0:0:0:0:0:1/128')
  assert.equal(clientOf('ffff:db8::1', 1), '8000:0:0:0:0:0:0:0/1')
})

it('a text that is no address is counted as it is, within bounds', () => {
  for (const text of [
    'unknown',
    '1:2:3',
    '1::2::3',
    'g::1',
    '12345::',
    '1:2:3:4:5:6:7:8:9',
    '1:2:3:4:5:6:7::8',
  ]) {
    if (text === '1:2:3:4:5:6:7::8') assert.equal(clientOf(text, 64), text)
    else assert.equal(client(text), text)
  }
  assert.equal(client('x'.repeat(10_000)).length, 64)
})
