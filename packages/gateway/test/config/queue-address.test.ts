/** The address of the queue: what is read of it, what is shown, and what is refused with which words. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeConfig } from '../../src/config/describe.ts'
import { loadConfig } from '../../src/config/load.ts'
import { readQueueAddress } from '../../src/config/queue-address.ts'
import { temporaryFolder } from './folder.ts'

const files = (path: string): string => `content of ${path}`

test('nodes, credentials, virtual host and TLS are read, and the password is not shown', () => {
  assert.deepEqual(
    readQueueAddress('amqps://us%40er:p%2Fw@one,two:9,[::1]/a%2Fb?ca=ca.pem&cert=c.pem&key=k.pem', files),
    {
      kind: 'amqp',
      nodes: ['one:5671', 'two:9', '[::1]:5671'],
      user: 'us@er',
      password: 'p/w',
      vhost: 'a/b',
      tls: { ca: 'content of ca.pem', cert: 'content of c.pem', key: 'content of k.pem' },
      shown: 'amqps://us%40er@one:5671,two:9,[::1]:5671/a%2Fb',
    },
  )
  assert.deepEqual(readQueueAddress('amqp://h', files), {
    kind: 'amqp',
    nodes: ['h:5672'],
    user: 'guest',
    password: 'guest',
    vhost: '/',
    shown: 'amqp://guest@h:5672/',
  })
})

test('what is not valid is refused with what is expected', () => {
  const refused = {
    'amqp:/h': /^expected embedded, or amqp:/,
    'amqp://h:99999': /^expected embedded, or amqp:/,
    'amqp://u:%zz@h': /%25$/,
    'amqp://u:p@ss@h/v': /a password @ is written %40/,
    'amqp://u:pa/ss@h/v': /a password @ is written %40/,
    'amqp://h/%zz': /^expected a virtual host in which/,
    'amqp://h?heartbeat=1': /^"heartbeat" is not known; expected ca, cert, key$/,
    'amqp://h?ca=x.pem': /^expected amqps: "ca"/,
  }
  for (const [text, message] of Object.entries(refused))
    assert.throws(() => readQueueAddress(text, files), { message }, text)
})

test('the address comes from the file, a variable or a file that is named, and is shown without its password', (t) => {
  const cwd = temporaryFolder(t, {
    'sluice.yaml': 'queue: amqp://u:canary@h/v',
    'empty.yaml': 'queueFile: queue.txt',
    'queue.txt': 'amqp://u:canary@other\n',
  })
  const shownOf = (path: string, env: Record<string, string> = {}) =>
    (describeConfig(loadConfig({ cwd, env, path })) as { queue: string }).queue
  assert.equal(shownOf('sluice.yaml'), 'amqp://u@h:5672/v')
  assert.equal(shownOf('empty.yaml'), 'amqp://u@other:5672/')
  assert.equal(shownOf('sluice.yaml', { SLUICE_QUEUE: 'embedded' }), 'embedded')
})
