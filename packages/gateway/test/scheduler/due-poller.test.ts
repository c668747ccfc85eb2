/** Takeover by the poller: what dead processes held comes before what is free, and all of it comes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import type { Notification } from '../../src/model.ts'
import { DuePoller, retryMs } from '../../src/scheduler/due-poller.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'

interface SetUp {
  readonly list: readonly Notification[]
  /** Ids to which the dead process had the right to send. */
  readonly begun?: readonly Notification[]
  readonly fullTenants?: () => readonly string[]
  readonly countSuspects?: (suspected: readonly Notification[]) => Promise<void>
}

/** A process that claimed all of the list has died; another one polls. */
async function setUp({ list, begun = [], fullTenants = () => [], countSuspects }: SetUp) {
  const record = createMemoryRecord(250)
  const dead = record.open('dead')
  await dead.commit({ accept: list })
  await dead.claimDue(epoch + 1_000, list.length)
  await dead.begin(begun.map((notification) => ({ notification })))
  record.declareDead('dead')
  const store = record.open('alive')
  const kept: Notification[] = []
  const counted: string[] = []
  let now = epoch + 2_000
  const poller = new DuePoller({
    store,
    clock: { now: () => now },
    lookaheadMs: 2_000,
    isFull: () => false,
    fullTenants,
    keep: (page) => kept.push(...page),
    countSuspects: countSuspects ?? (async (page) => void counted.push(...page.map(({ id }) => id))),
  })
  return { poller, kept, counted, store, pass: (ms: number) => (now += ms), now: () => now }
}

const due = (at: number, tenant = 'acme') =>
  someNotification({ tenant, status: 'scheduled', dueAt: epoch + at })

test('takes over page after page, earliest first, and then claims what is free', async () => {
  const list = Array.from({ length: 1_200 }, (_, at) => due(at / 2))
  const { poller, kept, store } = await setUp({ list })
  const free = due(1)
  await store.commit({ accept: [free] })
  await poller.read()
  assert.deepEqual(
    kept.map(({ id }) => id),
    [...list, free].map(({ id }) => id),
  )
})

test('keeps nothing that may have left before it is counted, and tries that again', async () => {
  const list = [due(1), due(2)]
  let isAway = true
  const counted: string[] = []
  const { poller, kept, now } = await setUp({
    list,
    begun: [list[1]!],
    async countSuspects(suspected) {
      if (isAway) throw new Error('the state is away')
      for (const { id, suspects } of suspected) counted.push(`${id} ${suspects?.join()}`)
    },
  })
  await assert.rejects(poller.read(), /away/)
  assert.deepEqual(kept, [])
  assert.equal(poller.next, now() + retryMs)
  isAway = false
  await poller.read()
  assert.deepEqual(
    kept.map(({ id }) => id),
    list.map(({ id }) => id),
  )
  assert.deepEqual(counted, [`${list[1]!.id} ${now()}`])
})

test('leaves tenants without room where they are, and takes them over when they have some', async () => {
  const list = [due(1), due(2, 'other')]
  let full = ['acme']
  const { poller, kept, now } = await setUp({ list, fullTenants: () => full })
  await poller.read()
  assert.deepEqual(
    kept.map(({ id }) => id),
    [list[1]!.id],
  )
  assert.equal(poller.next, now() + retryMs)
  full = []
  await poller.read()
  assert.deepEqual(
    kept.map(({ id }) => id),
    [list[1]!.id, list[0]!.id],
  )
})

test('looks again when another process dies, also during a read', async () => {
  const { poller, now, kept } = await setUp({ list: [due(1)] })
  await poller.read()
  assert.equal(kept.length, 1)
  assert.ok(poller.next > now())
  const reading = poller.read()
  poller.noteDeath()
  await reading
  assert.equal(poller.next, now())
})
