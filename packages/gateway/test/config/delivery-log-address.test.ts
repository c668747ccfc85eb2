/** The address of the delivery log: what is read of it, what is shown, and what is refused with which words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readDeliveryLogAddress } from '../../src/config/delivery-log-address.ts'
import { describeConfig } from '../../src/config/describe.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'

const noFiles = (path: string): string => `content of ${path}`

test('nodes, keyspace, data centre, credentials and TLS are read, and the password is not shown', () => {
  const text =
    'cassandra://us%40er:p%2Fw@one,two:9043,[::1]/my_log?dc=eu-1&tls=true&ca=ca.pem&cert=c.pem&key=k.pem&replication=2'
  assert.deepEqual(readDeliveryLogAddress(text, noFiles), {
    kind: 'cassandra',
    nodes: ['one:9042', 'two:9043', '[::1]:9042'],
    keyspace: 'my_log',
    dataCentre: 'eu-1',
    user: 'us@er',
    password: 'p/w',
    tls: { ca: 'content of ca.pem', cert: 'content of c.pem', key: 'content of k.pem' },
    replication: 2,
    shown: 'cassandra://us%40er@one:9042,two:9043,[::1]:9042/my_log',
  })
  assert.deepEqual(readDeliveryLogAddress('cassandra://h/k', noFiles), {
    kind: 'cassandra',
    nodes: ['h:9042'],
    keyspace: 'k',
    shown: 'cassandra://h:9042/k',
  })
})

test('what is not valid is refused with what is expected', () => {
  const refused = {
    'cassandra://h': /^expected store, or cassandra:/,
    'cassandra://h/Upper': /^expected store, or cassandra:/,
    'cassandra://h:99999/k': /^expected store, or cassandra:/,
    'redis://h/k': /^expected store, or cassandra:/,
    'cassandra://u:p@ss@h/k': /a password @ is written %40/,
    'cassandra://user@h/k': /^expected user:password before the @$/,
    'cassandra://u:%zz@h/k': /%25$/,
    'cassandra://h/k?nodes=3': /^"nodes" is not known; expected dc, tls, ca, cert, key, replication$/,
    'cassandra://h/k?tls=1': /^expected tls=true or tls=false$/,
    'cassandra://h/k?ca=ca.pem': /^expected tls=true: "ca" has a meaning with TLS only$/,
    'cassandra://h/k?replication=0': /^expected a replication from 1 to 10$/,
  }
  for (const [text, message] of Object.entries(refused))
    assert.throws(() => readDeliveryLogAddress(text, noFiles), { message }, text)
})

test('the log keeps its entries as long as the store at least, and no longer than Cassandra can', (t) => {
  const loaded = (retention: string) =>
    loadConfig({ env: {}, cwd: temporaryFolder(t, { 'sluice.yaml': `retention: ${retention}` }) })
  assert.throws(
    () => loaded('{ notifications: 60d, deliveryLog: 40d }'),
    /retention.deliveryLog: expected at least as long as retention.notifications/,
  )
  assert.throws(
    () => loaded('{ deliveryLog: 8000d }'),
    /retention.deliveryLog: expected at most 7300d, the longest that Cassandra keeps a row/,
  )
  const dayMs = 86_400_000
  assert.equal(loaded('{ deliveryLog: 40d }').retention.deliveryLogMs, 40 * dayMs)
  assert.equal(loaded('{ notifications: 500d }').retention.deliveryLogMs, 500 * dayMs)
})

test('a file or a variable names the address, and the description holds no password', (t) => {
  const cwd = temporaryFolder(t, { log: 'cassandra://u:hidden@h/k?dc=one&tls=true\n' })
  const config = loadConfig({ env: { SLUICE_DELIVERY_LOG_FILE: 'log' }, cwd })
  assert.equal(config.deliveryLog.kind, 'cassandra')
  const described = describeConfig(config)
  assert.equal(described.deliveryLog, 'cassandra://u@h:9042/k?dc=one&tls=true')
  assert.equal(JSON.stringify(described).includes('hidden'), false)
  const named = loadConfig({ env: { SLUICE_DELIVERY_LOG: 'cassandra://h/k' }, cwd })
  assert.deepEqual(describeConfig(named).deliveryLog, 'cassandra://h:9042/k')
})
