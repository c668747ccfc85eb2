/**
 * Two gateways over one record in memory, in virtual time: each obeys what the other has answered, and takes over what the
 * other held when it died.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLocalHints } from '../../src/adapters/local-notifier.ts'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import type { Members } from '../../src/member-port.ts'
import type { Provider } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, type Harness, type HarnessOptions, minute, second } from '../harness.ts'

const rightMs = 250
const tenant = 'default'

/** A provider whose calls end when the test says so. */
function slowProvider(name: string, calls: { readonly by: string; readonly id: string }[]): Provider {
  return {
    name: 'sandbox',
    idempotent: false,
    channels: ['email'],
    send(message) {
      calls.push({ by: name, id: message.id })
      return name === 'a' ? new Promise<never>(() => {}) : Promise.resolve({ outcome: 'delivered' })
    },
    close: async () => {},
  }
}

interface Options extends Pick<HarnessOptions, 'policy'> {
  /** Calls of the first process never end. */
  readonly hangs?: boolean
  /** False where the first process accepts, and releases nothing. @defaultValue true */
  readonly claims?: boolean
  /** False where every hint is lost. @defaultValue true */
  readonly areTold?: boolean
}

async function twoProcesses(options: Options = {}) {
  const { hangs = false, claims = true, areTold = true, ...more } = options
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  const record = createMemoryRecord(rightMs)
  const listeners: (() => void)[] = []
  const calls: { readonly by: string; readonly id: string }[] = []
  const hints = createLocalHints()
  async function join(id: string, seed: number): Promise<Harness> {
    const members: Members = {
      id,
      count: () => 2,
      holds: () => true,
      onDeath(listener) {
        listeners.push(listener)
        return () => {}
      },
      close: async () => {},
    }
    const providers = () => [slowProvider(id, calls)]
    const parts = { store: record.open(id), members, ...(areTold ? { notifier: hints.join() } : {}) }
    return await createHarness({
      clock,
      seed,
      parts,
      ...more,
      ...(hangs ? { providers } : {}),
      ...(claims || id !== 'a' ? {} : { stages: false }),
    })
  }
  return {
    clock,
    calls,
    a: await join('a', 1),
    b: await join('b', 2),
    /** The others find the process dead: its store takes nothing more from it. */
    declareDead(id: string) {
      record.declareDead(id)
      for (const listener of listeners) listener()
    },
  }
}

const editorOf = ({ gateway: { gate, store } }: Harness) => createRecipientEditor({ gate, store })

/** Lets time pass until the promise is settled, at most ten seconds. */
async function during<T>({ clock }: Harness, promise: Promise<T>): Promise<T> {
  let isOpen = true
  const watched = promise.finally(() => {
    isOpen = false
  })
  watched.catch(() => undefined)
  for (let steps = 0; isOpen && steps < 1_000; steps += 1) await clock.runUntil(clock.now() + 10)
  return await watched
}

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

test('a hold that one process has answered is in force at the other, and so is its end', async () => {
  for (const [areTold, withinMs] of [
    [true, 0],
    [false, 5 * second],
  ] as const) {
    const { clock, a, b } = await twoProcesses({ areTold })
    const hold = { name: 'stop', category: 'product', until: clock.now() + minute, reason: 'test' }
    await a.done(a.gateway.holds.put(hold))
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
