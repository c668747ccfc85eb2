import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { connected } from '../smtp-rig.ts'

test('warm connections carry all mails, and no connection is opened for a single mail', async (t) => {
  const { sink, provider, account, send } = await connected(t, { account: { connections: 3 } })
  await provider.warm!(account)
  assert.deepEqual(sink.connections, { opened: 3, open: 3 })
  await Promise.all(Array.from({ length: 300 }, () => send()))
  assert.deepEqual([sink.mails.length, sink.connections.opened], [300, 3])
})

test('never more connections than allowed are open, however many mails wait', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 2 } })
  await Promise.all(Array.from({ length: 100 }, () => send()))
  assert.equal(sink.connections.opened, 2)
})

test('a server that allows fewer connections than were wanted carries everything over those', async (t) => {
  const { sink, send } = await connected(t, {
    sink: { rules: [{ at: 'connect', after: 2, do: '421 4.7.0 too many connections from you' }] },
  })
  const results = await Promise.all(Array.from({ length: 200 }, () => send()))
  for (const result of results) assert.equal(result.outcome, 'delivered')
  assert.ok(sink.connections.opened <= 8, `${sink.connections.opened} connections were asked for`)
})

test('an unresponsive server does not keep the gateway from starting', { timeout: 10_000 }, async (t) => {
  const { sink, provider, account } = await connected(t)
  sink.rules = [{ at: 'connect', do: 'hang' }]
  const began = performance.now()
  await provider.warm!(account)
  assert.ok(performance.now() - began < 3_000)
})

test('a kept connection that the server closed loses no mail', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 1 } })
  await send()
  sink.rules = [{ at: 'mail', do: 'reset', times: 1 }]
  assert.equal((await send()).outcome, 'delivered')
  sink.rules = [{ at: 'mail', do: '421 4.4.2 too long idle', times: 1 }]
  assert.equal((await send()).outcome, 'delivered')
  assert.equal(sink.mails.length, 3)
})

test('a connection that is closed again and again is a failure, not a loop', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 1 } })
  await send()
  sink.rules = [{ at: 'mail', do: 'reset' }]
  assert.equal((await send()).outcome, 'failed')
  assert.equal(sink.connections.opened, 2)
})

test('a new connection carries the mail, however many kept ones were closed unnoticed', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 3 } })
  await Promise.all(Array.from({ length: 30 }, () => send()))
  sink.rules = [{ at: 'mail', do: 'reset', times: sink.connections.open }]
  assert.equal((await send()).outcome, 'delivered')
  assert.equal(sink.mails.length, 31)
})

/** Until it holds, or five seconds are over. */
async function until(holds: () => boolean): Promise<boolean> {
  for (const end = performance.now() + 30_000; !holds() && performance.now() < end; ) await wait(20)
  return holds()
}

test('only a recently used connection is reopened after the server closed it', async (t) => {
  const { sink, provider, account, send } = await connected(t, { account: { connections: 3 } })
  await provider.warm!(account)
  await send()
  sink.hangUp('421 4.4.2 idle')
  assert.ok(await until(() => sink.connections.opened === 4))
  await wait(1_200)
  assert.deepEqual(sink.connections, { opened: 4, open: 1 })
  assert.equal((await send()).outcome, 'delivered')
  assert.equal(sink.connections.opened, 4)
})

test('without mail no connection logs in again, however often the server closes connections', async (t) => {
  const { sink, provider, account, send } = await connected(t, { account: { connections: 4 } })
  sink.rules = [{ at: 'ehlo', do: '421 4.3.2 going down', after: 4 }]
  await provider.warm!(account)
  for (let round = 0; round < 3; round += 1) {
    sink.hangUp('421 4.4.2 idle')
    await wait(700)
  }
  assert.equal(sink.connections.opened, 4)
  sink.rules = []
  assert.equal((await send()).outcome, 'delivered')
  assert.equal(sink.connections.opened, 5)
})

test('a server with a limit of mails per connection gets the others over another connection, and the account is not blocked', async (t) => {
  for (const reply of [
    '421 too many messages in this connection',
    '421 Max message per connection reached, closing transmission channel',
    '452 4.5.3 Too many messages in this session',
  ]) {
    for (const at of ['mail', 'rcpt', 'body'] as const) {
      const { sink, send } = await connected(t, { account: { connections: 1 } })
      await send()
      sink.rules = [{ at, do: reply, times: 1 }]
      assert.equal((await send()).outcome, 'delivered', `${reply} to ${at}`)
      assert.equal(sink.mails.length, 2)
      assert.equal(sink.connections.opened, 2)
    }
  }
})

test('a server that answers this to a first mail fails it, without an endless retry', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 1 } })
  sink.rules = [{ at: 'mail', do: '421 too many messages in this connection' }]
  await send()
  assert.equal((await send()).outcome, 'failed')
  assert.equal(sink.connections.opened, 2)
})

test('a mail fails at once when the queue of the pool is full', async (t) => {
  const { sink, send } = await connected(t, {
    provider: { waitingMax: 2, deadlineMs: 300 },
    account: { connections: 1 },
  })
  sink.rules = [{ at: 'connect', do: 'hang' }]
  const waiting = [send(), send()]
  const third = await send()
  assert.deepEqual(third, { outcome: 'failed', detail: 'too many mails wait for a connection' })
  for (const result of await Promise.all(waiting)) assert.equal(result.outcome, 'failed')
})
