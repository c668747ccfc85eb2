/**
 * Two gateways over one record in memory, in virtual time: each obeys what the other has answered, and takes over what the
 * other held when it died.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import { type Harness, minute, second } from '../harness.ts'
import { codeOf, open, stateOf, workFor } from '../http/job-harness.ts'
import { during, rightMs, twoProcesses } from './two-processes.ts'

const tenant = 'default'

const editorOf = ({ gateway: { gate, store } }: Harness) => createRecipientEditor({ gate, store })

for (const areTold of [true, false])
  test(`an opt-out that one process has answered is obeyed by another that knew the recipient without it, ${areTold ? 'with' : 'without'} a hint`, async () => {
    const { clock, a, b } = await twoProcesses({ areTold })
    await a.post({ recipient: 'ada' })
    await clock.runUntil(clock.now() + second)
    assert.equal(a.sent().length, 1)
    const savedAt = clock.now()
    const optOuts = [{ category: 'product' }]
    await during(
      b,
      editorOf(b).edit(tenant, 'ada', () => ({ tenant, id: 'ada', optOuts })),
    )
    assert.ok(clock.now() - savedAt >= rightMs, 'it answers when no call of the other process can follow')
    const late = await a.post({ recipient: 'ada' })
    assert.equal(late.status, 'suppressed')
    await clock.runUntil(clock.now() + 5 * second)
    assert.equal(a.sent().length + b.sent().length, 1)
    await a.stop()
    await b.stop()
  })

test('two processes that change one recipient at once lose neither change', async () => {
  const { a, b } = await twoProcesses()
  const set = (at: Harness, fields: object) =>
    editorOf(at).edit(tenant, 'ada', (before) => ({ tenant, id: 'ada', ...before, ...fields }))
  await during(
    a,
    Promise.all([
      set(a, { email: 'ada@example.com' }),
      set(b, { phone: '+4512345678' }),
      set(a, { locale: 'it' }),
      set(b, { optOuts: [{ channel: 'sms' }] }),
    ]),
  )
  const { version, ...stored } = (await a.gateway.store.recipient(tenant, 'ada'))!
  assert.ok(version !== undefined)
  assert.deepEqual(stored, {
    tenant,
    id: 'ada',
    email: 'ada@example.com',
    phone: '+4512345678',
    locale: 'it',
    optOuts: [{ channel: 'sms' }],
  })
  await a.stop()
  await b.stop()
})

test('an opt-out that another process lifts while it is applied is answered, and what waits leaves', async () => {
  const { clock, a, b } = await twoProcesses({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', per: 'recipient', max: '1/10s', over: 'delay' }],
    },
  })
  for (let n = 0; n < 2; n += 1)
    await a.post({ recipient: 'ada', content: { subject: `${n}`, text: `${n}` } })
  await clock.runUntil(clock.now() + second)
  const { store } = a.gateway
  const read = store.notification
  const ada = { tenant, id: 'ada' }
  let lifted: Promise<unknown> | undefined
  // It has decided to suppress what waits, and reads that again.
  Object.assign(store, {
    async notification(...name: Parameters<typeof read>) {
      const { version = 0 } = (await store.recipient(tenant, 'ada')) ?? {}
      lifted ??= b.gateway.gate.saveRecipient({ ...ada, optOuts: [], version })
      const isLifted = async () => (await store.recipient(tenant, 'ada'))?.optOuts?.length === 0
      while (!(await isLifted())) await new Promise(setImmediate)
      return await read.apply(store, name)
    },
  })
  const optOuts = [{ category: 'product' }]
  await during(
    a,
    Promise.race([
      editorOf(a).edit(tenant, 'ada', () => ({ tenant, id: 'ada', optOuts })),
      new Promise((_, reject) => clock.at(clock.now() + 5 * second, () => reject(new Error('no answer')))),
    ]),
  )
  assert.ok(lifted !== undefined, 'it was lifted meanwhile')
  await clock.runUntil(clock.now() + 20 * second)
  assert.equal(a.sent().length + b.sent().length, 2)
  await a.stop()
  await b.stop()
})

test('a cancellation that one process has answered is obeyed by another that holds the notification', async () => {
  const { clock, a, b } = await twoProcesses()
  const posted = await a.post({ recipient: 'ada', sendAt: clock.now() + 3 * second })
  await clock.runUntil(clock.now() + 2 * second)
  await during(b, b.gateway.gate.cancel(tenant, posted.id))
  await clock.runUntil(clock.now() + 5 * second)
  assert.equal(a.sent().length + b.sent().length, 0)
  assert.equal((await a.gateway.store.notification(tenant, posted.id))?.status, 'cancelled')
  await a.stop()
  await b.stop()
})

test('what a dead process held and had not sent is sent by another, once', async () => {
  const { clock, a, b, declareDead } = await twoProcesses()
  const sendAt = clock.now() + 3 * second
  const posted = await a.postMany(Array.from({ length: 30 }, (_, n) => ({ recipient: `r${n}`, sendAt })))
  // The process holds them two seconds ahead, and dies before they are due.
  await clock.runUntil(sendAt - second)
  declareDead('a')
  await clock.runUntil(sendAt + second)
  const ids = b.sent().map(({ id }) => id)
  assert.deepEqual(ids.toSorted(), posted.map(({ id }) => id).toSorted())
  assert.equal(a.sent().length, 0, 'the dead process has no right to send')
  for (const { id } of posted)
    assert.equal((await b.gateway.store.notification(tenant, id))?.suspects, undefined)
  await b.stop()
})

test('a notification that a dead process may have sent counts in the limits of the one that takes it over', async () => {
  const policy = {
    version: 1,
    limits: [{ name: 'hourly', for: { category: 'product' }, max: ['3/h'], over: 'delay' }],
  }
  const { clock, calls, a, b, declareDead } = await twoProcesses({ policy, hangs: true })
  // The taker knows the recipient's limits already: nothing of them is read from the record again.
  await b.post({ recipient: 'ada' })
  await clock.runUntil(clock.now() + second)
  const posted = await a.post({ recipient: 'ada' })
  await clock.runUntil(clock.now() + second)
  assert.deepEqual(calls.at(-1), { by: 'a', id: posted.id })
  declareDead('a')
  await clock.runUntil(clock.now() + minute)
  assert.deepEqual(calls.at(-1), { by: 'b', id: posted.id }, 'it is sent again, under the same id')
  assert.equal((await b.gateway.store.notification(tenant, posted.id))?.suspects?.length, 1)
  const [usage] = await b.done(b.gateway.gate.usage(tenant, 'ada'))
  assert.equal(usage?.used, 3, 'the first, the one that may have left, and its repetition')
  const late = await b.post({ recipient: 'ada' })
  assert.notEqual(late.status, 'queued')
  await b.stop()
})

test('a notification that a dead process may have sent counts where the one that takes it over dies before it has counted it', async () => {
  const policy = {
    version: 1,
    limits: [{ name: 'hourly', for: { category: 'product' }, max: ['2/h'], over: 'delay' }],
  }
  const counting: string[] = []
  const { clock, calls, a, join, declareDead } = await twoProcesses({
    policy,
    hangs: true,
    sharesLimits: true,
    wrapShared: (limits, id) => ({
      ...limits,
      recount(requests) {
        counting.push(id)
        return id === 'b' ? new Promise<never>(() => {}) : limits.recount(requests)
      },
    }),
  })
  const posted = await a.post({ recipient: 'ada' })
  await clock.runUntil(clock.now() + second)
  assert.deepEqual(calls, [{ by: 'a', id: posted.id }])
  declareDead('a')
  await clock.runUntil(clock.now() + second)
  assert.deepEqual(counting, ['b'])
  const c = await join('c', 3)
  declareDead('b')
  await clock.runUntil(clock.now() + minute)
  assert.deepEqual(calls.at(-1), { by: 'c', id: posted.id }, 'it is sent again, under the same id')
  const [usage] = await c.done(c.gateway.gate.usage(tenant, 'ada'))
  assert.equal(usage?.used, 2, 'the one that may have left, and its repetition')
  assert.equal((await c.post({ recipient: 'ada' })).status, 'scheduled')
  await c.stop()
})

test('a batch in the background whose last notifications another process is sending cannot be cancelled', async () => {
  const { clock, calls, a, b } = await twoProcesses({ hangs: true })
  const job = await open(a, workFor(2))
  await clock.runUntil(clock.now() + 2 * second)
  assert.deepEqual(
    calls.map(({ by }) => by),
    ['a', 'a'],
  )
  assert.deepEqual((await stateOf(b, job)).counts, { sending: 2 })
  assert.equal(await codeOf(during(b, b.gateway.jobs.cancel(job))), 'NOT_CANCELLABLE')
  assert.equal((await stateOf(b, job)).status, 'done')
  await b.stop()
})

test('a hold that one process has answered is in force at the other, and so is its end', async () => {
  for (const [areTold, withinMs] of [
    [true, 0],
    [false, 5 * second],
  ] as const) {
    const { clock, a, b } = await twoProcesses({ areTold })
    const hold = { name: 'stop', category: 'product', until: clock.now() + minute, reason: 'test' }
    const putting = a.gateway.holds.put(hold)
    // The answer comes when the rights to send that others had before have ended.
    await clock.runUntil(clock.now() + second)
    await putting
    await clock.runUntil(clock.now() + withinMs)
    assert.deepEqual(
      b.gateway.holds.list().map(({ name }) => name),
      ['stop'],
    )
    await b.post({ recipient: 'ada' })
    await clock.runUntil(clock.now() + second)
    assert.equal(b.sent().length, 0)
    await b.done(b.gateway.holds.end('stop'))
    await clock.runUntil(clock.now() + withinMs)
    assert.deepEqual(a.gateway.holds.list(), [])
    await a.stop()
    await b.stop()
  }
})

test('what a process stored for soon, and does not claim, is sent by another in time', async () => {
  const { clock, a, b } = await twoProcesses({ claims: false })
  const sendAt = clock.now() + 10 * second
  const posted = await a.post({ recipient: 'ada', sendAt })
  await clock.runUntil(sendAt + 100)
  assert.deepEqual(
    b.sent().map(({ id, at }) => [id, at - sendAt <= 100]),
    [[posted.id, true]],
  )
  await b.stop()
})

test('a call that waits for the answer to its envelope counts for another process until it is written', async () => {
  const { clock, a, b, writtenAt } = await twoProcesses({
    sharesLimits: true,
    writtenAfterMs: { a: 2 * second },
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', per: 'recipient', max: '10/min', minGap: '500ms', over: 'delay' }],
    },
  })
  await a.post({ recipient: 'ada', content: { subject: '1', text: '1' } })
  await clock.runUntil(clock.now() + 1.7 * second)
  await b.post({ recipient: 'ada', content: { subject: '2', text: '2' } })
  await clock.runUntil(clock.now() + 5 * second)
  assert.equal(writtenAt.length, 2)
  assert.ok(writtenAt[1]! - writtenAt[0]! >= 500, `${writtenAt[1]! - writtenAt[0]!} ms lie between them`)
  await a.stop()
  await b.stop()
})

test('a call that is written late keeps a short gap to that of another process, though the limits hear late of it', async () => {
  const { clock, a, b, writtenAt } = await twoProcesses({
    sharesLimits: true,
    countedAfterMs: 40,
    writtenAfterMs: { a: 148 },
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', per: 'recipient', max: '10/min', minGap: '100ms', over: 'delay' }],
    },
  })
  await a.post({ recipient: 'ada', content: { subject: '1', text: '1' } })
  await clock.runUntil(clock.now() + 50)
  await b.post({ recipient: 'ada', content: { subject: '2', text: '2' } })
  await clock.runUntil(clock.now() + 30 * second)
  assert.equal(writtenAt.length, 2)
  for (const [index, at] of writtenAt.entries())
    if (index > 0) assert.ok(at - writtenAt[index - 1]! >= 100, `written at ${writtenAt}`)
  await a.stop()
  await b.stop()
})

test('what a process has not accepted before it died is no duplicate when it comes again', async () => {
  const { clock, a, b } = await twoProcesses({ sharesLimits: true, commits: false })
  const draft = { recipient: 'ada', content: { subject: 'Your code', text: '1' } }
  // It holds the fingerprint, and does not come to its commit.
  a.post(draft).catch(() => undefined)
  await clock.runUntil(clock.now() + 100)
  const again = b.post(draft)
  // Another one waits for the first, and is its duplicate.
  const third = b.post(draft)
  await clock.runUntil(clock.now() + 14 * second)
  assert.equal(b.sent().length, 0, 'the first may still come to its commit until it is declared dead')
  await clock.runUntil(clock.now() + 2 * second)
  const answers = await Promise.all([again, third])
  assert.deepEqual(answers.map(({ status }) => status).sort(), ['queued', 'suppressed'])
  assert.equal(b.sent().length, 1)
  await b.stop()
})

test('what waits for the fingerprint of a dead process asks the record seldom', async () => {
  const { clock, a, b } = await twoProcesses({ sharesLimits: true, commits: false })
  const draft = { recipient: 'ada', content: { subject: 'Your code', text: '1' } }
  a.post(draft).catch(() => undefined)
  await clock.settle()
  const { store } = b.gateway
  const read = store.notification
  let looks = 0
  Object.assign(store, {
    notification(...name: Parameters<typeof read>) {
      looks += 1
      return read.apply(store, name)
    },
  })
  const posted = b.post(draft)
  await clock.runUntil(clock.now() + 14 * second)
  assert.ok(looks > 1 && looks <= 20, `${looks} looks in 14 s`)
  await clock.runUntil(clock.now() + 2 * second)
  assert.equal((await posted).status, 'queued')
  await b.stop()
})

test('a batch that has waited for the fingerprint of a dead process is accepted once with those who wait for the batch', async () => {
  const { clock, a, b } = await twoProcesses({ sharesLimits: true, commits: false })
  const to = (recipient: string) => ({ recipient, content: { subject: 'News', text: '1' } })
  a.post(to('bob')).catch(() => undefined)
  const batch = b.postMany([to('ada'), to('bob')])
  await clock.settle()
  const again = b.post(to('ada'))
  await clock.runUntil(clock.now() + 40 * second)
  const answers = [...(await batch), await again]
  assert.equal(answers.filter(({ status }) => status === 'suppressed').length, 1)
  assert.equal(b.sent().length, 2, 'one for each recipient')
  await b.stop()
})

test('two batches that name the same recipients in another order are accepted without waiting for each other', async () => {
  const { clock, a, b } = await twoProcesses({ sharesLimits: true })
  const drafts = ['ada', 'bob'].map((recipient) => ({ recipient, content: { subject: 'News', text: '1' } }))
  const begunAt = clock.now()
  const posted = [a.postMany(drafts), b.postMany(drafts.toReversed())]
  await clock.runUntil(clock.now() + second)
  await Promise.all(posted)
  assert.equal(a.sent().length + b.sent().length, 2, 'one for each recipient')
  assert.ok(clock.now() - begunAt <= second)
  await a.stop()
  await b.stop()
})
