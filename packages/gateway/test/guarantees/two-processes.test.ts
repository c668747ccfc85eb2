/**
 * Two gateways over one record in memory, in virtual time: each obeys what the other has answered, and takes over what the
 * other held when it died.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, type Harness, second } from '../harness.ts'

const rightMs = 250
const tenant = 'default'

async function twoProcesses() {
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  const record = createMemoryRecord(rightMs)
  const join = (id: string, seed: number): Promise<Harness> =>
    createHarness({ clock, seed, parts: { store: record.open(id) } })
  return { clock, record, a: await join('a', 1), b: await join('b', 2), join }
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

test('an opt-out that one process has answered is obeyed by another, which knew the recipient without it', async () => {
  const { clock, a, b } = await twoProcesses()
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
