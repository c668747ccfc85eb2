import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readStateAddress } from '../../src/config/state-address.ts'

const read = (text: string) => readStateAddress(text, (path) => `text of ${path}`)

test('reads one server with its database and login, and shows it without the password', () => {
  assert.deepEqual(
    read('redis://ad%40a:s%2Fecret@cache.internal:6380/3?prefix=blue:&deadline=80ms&slot=60ms'),
    {
      kind: 'redis',
      url: 'redis://ad%40a:s%2Fecret@cache.internal:6380/3',
      user: 'ad@a',
      password: 's/ecret',
      nodes: ['cache.internal:6380'],
      isCluster: false,
      prefix: 'blue:',
      deadlineMs: 80,
      slotMs: 60,
      shown: 'redis://ad%40a@cache.internal:6380/3',
    },
  )
})

test('has the defaults of Redis, a password without a user, and an IPv6 address', () => {
  const { nodes, user, password, prefix, deadlineMs, slotMs, tls, shown } = read('redis://:secret@[::1]')
  assert.deepEqual(nodes, ['[::1]:6379'])
  assert.deepEqual(
    [user, password, prefix, deadlineMs, slotMs, tls],
    [undefined, 'secret', 'sl:', 50, 20, undefined],
  )
  assert.equal(shown, 'redis://[::1]:6379')
})

test('reads the nodes of a cluster, with TLS by the given authority', () => {
  const { url, nodes, isCluster, tls } = read(
    'rediss-cluster://u:p@one,two:7001,three?ca=/ca.pem&cert=/c.pem&key=/k.pem',
  )
  assert.deepEqual(nodes, ['one:6379', 'two:7001', 'three:6379'])
  assert.equal(url, 'rediss-cluster://u:p@one:6379,two:7001,three:6379')
  assert.ok(isCluster)
  assert.deepEqual(tls, { ca: 'text of /ca.pem', cert: 'text of /c.pem', key: 'text of /k.pem' })
  assert.deepEqual(read('rediss://one').tls, {})
})

for (const [text, message] of [
  ['redis:/one', /expected memory, redis:\/\//],
  ['mysql://one', /expected memory, redis:\/\//],
  ['redis://one:99999', /expected memory, redis:\/\//],
  ['redis://one,two', /written redis-cluster:\/\//],
  ['redis://one/16', /a database from 0 to 15/],
  ['redis-cluster://one/1', /has only one/],
  ['redis://one?ca=/ca.pem', /expected rediss/],
  ['redis://one?sslmode=require', /"sslmode" is not known; expected ca, cert, key, prefix, deadline, slot/],
  ['redis://one?prefix=a{b}', /expected a prefix/],
  ['redis://one?deadline=5s', /expected a deadline from 1ms to 2s/],
  ['redis://one?deadline=soon', /expected a deadline such as 50ms/],
  ['redis://one?slot=10ms', /expected a slot from 20ms to 200ms/],
  ['redis://one?slot=wide', /expected a slot such as 20ms/],
  ['redis://a%zz:b@one', /every % is written %25/],
] as const)
  test(`refuses ${text} and says what is expected`, () => {
    assert.throws(() => read(text), message)
  })

test('a password with a character of the address is no part of the host, and no part of it is shown', () => {
  for (const password of ['p@hunter', 'p/hunter', 'hunter/2', '12/hunter'])
    assert.throws(
      () => read(`redis://:${password}@one`),
      ({ message }: Error) =>
        /within a user or a password @ is written %40/.test(message) && !message.includes('hunter'),
    )
})

test('no error names the password', () => {
  for (const text of ['redis://u:hunter2@one,two', 'redis://u:hunter2@one?x=1', 'redis://u:hunter2@one/99'])
    assert.throws(
      () => read(text),
      (error: Error) => !error.message.includes('hunter2'),
    )
})
