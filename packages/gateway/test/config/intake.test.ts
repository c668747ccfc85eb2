import assert from 'node:assert/strict'
import { test } from 'node:test'
import { configText } from '../../src/config/describe.ts'
import { readKafkaAddress } from '../../src/config/intake.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'

const read = (text: string) => readKafkaAddress(text, (path) => `text of ${path}`)

test('reads plain hosts, with the port of Kafka where none is named', () => {
  assert.deepEqual(read('one:9093,two,[::1]:9094'), {
    brokers: ['one:9093', 'two:9092', '[::1]:9094'],
    shown: 'kafka://one:9093,two:9092,[::1]:9094',
  })
})

test('reads TLS and a user, and shows neither the password nor a certificate', () => {
  const { tls, sasl, shown } = read(
    'kafkas://ad%40a:s%2Fecret@one:9093?mechanism=scram-sha-512&ca=/ca.pem&cert=/c.pem&key=/k.pem',
  )
  assert.deepEqual(tls, { ca: 'text of /ca.pem', cert: 'text of /c.pem', key: 'text of /k.pem' })
  assert.deepEqual(sasl, { mechanism: 'SCRAM-SHA-512', user: 'ad@a', password: 's/ecret' })
  assert.equal(shown, 'kafkas://ad%40a@one:9093?mechanism=scram-sha-512')
  assert.deepEqual(read('kafkas://one').tls, {})
  assert.equal(read('kafka://u:p@one').sasl?.mechanism, 'PLAIN')
})

for (const [text, message] of [
  ['', /expected host:9092/],
  ['redis://one', /expected host:9092/],
  ['one:99999', /expected host:9092/],
  ['one,,two', /expected host:9092/],
  ['kafka://one?ca=/ca.pem', /expected kafkas/],
  ['kafka://one?tls=true', /"tls" is not known; expected ca, cert, key, mechanism/],
  ['kafkas://u:p@ss@one', /a password @ is written %40/],
  ['kafka://user@one', /expected a user and a password/],
  ['kafka://one?mechanism=plain', /expected a user and a password/],
  ['kafka://u:p@one?mechanism=gssapi', /expected mechanism=plain, scram-sha-256, scram-sha-512/],
  ['kafka://a%zz:b@one', /every % is written %25/],
] as const)
  test(`refuses "${text}" and says what is expected`, () => {
    assert.throws(() => read(text), message)
  })

test('no error names the password', () => {
  for (const text of ['kafka://u:hunter2@one?x=1', 'kafka://u:hunter2@one:99999', 'kafka://u:hunter2@'])
    assert.throws(
      () => read(text),
      (error: Error) => !error.message.includes('hunter2'),
    )
})

test('a topic is read with its group, its address from a file, and described without the password', (t) => {
  const cwd = temporaryFolder(t, {
    'sluice.yaml':
      'intake: [{ kafkaFile: kafka.txt, topic: notifications }, { kafka: "one:9092", topic: t, group: g }]',
    'kafka.txt': 'kafka://u:hunter2@one\n',
  })
  const config = loadConfig({ cwd, env: {} })
  assert.deepEqual(
    config.intake.map(({ topic, group, sasl }) => [topic, group, sasl?.password]),
    [
      ['notifications', 'sluice', 'hunter2'],
      ['t', 'g', undefined],
    ],
  )
  const text = configText(config)
  assert.match(text, /kafka: kafka:\/\/u@one:9092\?mechanism=plain, topic: notifications, group: sluice/)
  assert.doesNotMatch(text, /hunter2/)
})
