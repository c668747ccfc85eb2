/** Changes of state of several processes, as the readers of event streams at one of them get them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { createFleetChanges, type StateChange } from '../../src/http/fleet-changes.ts'
import type { Notification, TimelineEvent } from '../../src/model.ts'
import type { Peers } from '../../src/ports/fleet.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import type { Happening } from '../../src/stages.ts'

const events: readonly TimelineEvent[] = [
  { at: 1, status: 'accepted' },
  { at: 1, status: 'queued' },
  { at: 2, status: 'sending' },
  { at: 3, status: 'delivered' },
]

/** The change of a notification from so many events to so many. */
function changeOf(id: string, from: number, to: number, tenant = 'acme'): Happening {
  const notification: Notification = someNotification({ id, tenant, timeline: events.slice(0, to) })
  return { notification, events: events.slice(from, to) }
}

/** Processes whose messages arrive at once, unless they are kept back. */
function createFleet() {
  const clock = createVirtualClock(0)
  const members = new Map<string, ReturnType<typeof membership>>()
  const told: string[] = []
  const dead = new Set<string>()
  let keptBack: (() => void)[] | undefined
  let lastAnswer: Promise<void> | undefined

  const membership = () => ({
    listeners: new Map<string, (message: unknown, from: string) => void>(),
    answerers: new Map<string, (question: unknown, from: string) => unknown>(),
    lost: new Set<() => void>(),
    isCutOff: false,
  })

  function join(member: string) {
    const own = membership()
    members.set(member, own)
    const reached = (to?: string) =>
      [...members].filter(
        ([name, { isCutOff }]) => name !== member && !isCutOff && !own.isCutOff && (to ?? name) === name,
      )
    const peers: Peers = {
      tell(topic, message, to) {
        if (topic === 'change') told.push(`${member} to ${to}`)
        for (const [, { listeners }] of reached(to)) {
          const arrive = () => listeners.get(topic)?.(message, member)
          if (keptBack === undefined) arrive()
          else keptBack.push(arrive)
        }
      },
      listen(topic, listener) {
        own.listeners.set(topic, listener)
        return () => {}
      },
      async ask(topic, question) {
        const asked = dead.has(member) ? [] : reached()
        const answers = asked.map(
          ([name, { answerers }]) => [name, answerers.get(topic)?.(question, member)] as const,
        )
        if (lastAnswer !== undefined) await lastAnswer
        return { answers: new Map(answers), silent: [] }
      },
      answer: (topic, answerer) => void own.answerers.set(topic, answerer),
      onLost: (listener) => void own.lost.add(listener),
      noteGone() {},
      async close() {},
    }
    const ledger = new Set<(happening: Happening) => void>()
    const feed = createFleetChanges({
      peers,
      clock,
      ledger: {
        subscribe(listener) {
          ledger.add(listener)
          return () => void ledger.delete(listener)
        },
      },
    })
    return {
      feed,
      happen(...happenings: readonly Happening[]): void {
        for (const happening of happenings) for (const listener of ledger) listener(happening)
      },
      /** Its connection to the others is interrupted, while `meanwhile` happens. */
      interrupt(meanwhile: () => void): void {
        own.isCutOff = true
        meanwhile()
        own.isCutOff = false
        for (const listener of own.lost) listener()
      },
    }
  }
  return {
    clock,
    told,
    join,
    kill: (member: string) => void dead.add(member),
    /** Whoever asks waits besides for one that does not answer, until the returned function is called. */
    silence(): () => void {
      const { promise, resolve } = Promise.withResolvers<void>()
      lastAnswer = promise
      return () => {
        lastAnswer = undefined
        resolve()
      }
    },
    keepBack(): void {
      keptBack = []
    },
    letGo(): void {
      const kept = keptBack ?? []
      keptBack = undefined
      for (const arrive of kept) arrive()
    },
  }
}

/** Reads at one process; returns what it has seen. */
async function read(
  { feed }: ReturnType<ReturnType<typeof createFleet>['join']>,
  tenants?: readonly string[],
) {
  const seen: string[] = []
  const show = ({ notification: { id }, events }: StateChange): void => {
    for (const { status } of events) seen.push(`${id} ${status}`)
  }
  const end = feed.subscribe(show)
  await feed.watchTenants!(tenants)
  return { seen, end }
}

test('a reader gets the changes of every process', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  const { seen } = await read(b)
  a.happen(changeOf('one', 0, 2))
  b.happen(changeOf('two', 0, 2), changeOf('one', 2, 4))
  assert.deepEqual(seen, [
    'one accepted',
    'one queued',
    'two accepted',
    'two queued',
    'one sending',
    'one delivered',
  ])
})

test('the changes of a notification are shown in their order, though the first comes last', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  const { seen } = await read(b)
  fleet.keepBack()
  a.happen(changeOf('one', 0, 1), changeOf('one', 1, 2))
  b.happen(changeOf('one', 2, 3), changeOf('one', 3, 4))
  assert.deepEqual(seen, [])
  fleet.letGo()
  assert.deepEqual(seen, ['one accepted', 'one queued', 'one sending', 'one delivered'])
})

test('a change whose predecessor never comes is shown after a moment, and a later predecessor is not', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  const { seen } = await read(b)
  fleet.keepBack()
  a.happen(changeOf('one', 0, 2))
  b.happen(changeOf('one', 3, 4), changeOf('one', 2, 3))
  await fleet.clock.runUntil(99)
  assert.deepEqual(seen, [])
  await fleet.clock.runUntil(101)
  fleet.letGo()
  assert.deepEqual(seen, ['one sending', 'one delivered'])
})

test('nothing is told without readers, nor of tenants that nobody reads', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  a.happen(changeOf('one', 0, 2))
  const { seen, end } = await read(b, ['globex'])
  a.happen(changeOf('two', 0, 2))
  assert.deepEqual(fleet.told, [])
  a.happen(changeOf('three', 0, 2, 'globex'))
  assert.deepEqual([fleet.told, seen], [['a to b'], ['three accepted', 'three queued']])
  end()
  await b.feed.watchTenants!([])
  a.happen(changeOf('four', 0, 2, 'globex'))
  assert.equal(fleet.told.length, 1)
})

test('a process renews its readers, and one that has died is told no more after some seconds', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  await read(b)
  await fleet.clock.runUntil(60_000)
  a.happen(changeOf('one', 0, 2))
  assert.equal(fleet.told.length, 1)
  fleet.kill('b')
  await fleet.clock.runUntil(70_000)
  a.happen(changeOf('two', 0, 2))
  assert.equal(fleet.told.length, 1)
})

test('a reader gets the changes of a process that has just started', async () => {
  const fleet = createFleet()
  const { seen } = await read(fleet.join('a'), ['acme'])
  const b = fleet.join('b')
  await Promise.resolve()
  b.happen(changeOf('one', 0, 2), changeOf('two', 0, 2, 'globex'))
  assert.deepEqual(seen, ['one accepted', 'one queued'])
})

test('a reader hears that changes may have been missed where the connection of another process was interrupted', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  const { seen } = await read(a)
  let times = 0
  a.feed.onLost!(() => {
    times += 1
  })
  b.interrupt(() => b.happen(changeOf('one', 0, 2)))
  assert.deepEqual([seen, times], [[], 1])
  a.interrupt(() => b.happen(changeOf('two', 0, 2)))
  assert.deepEqual([seen, times], [[], 2])
})

test('a reader that comes while a process still waits for the answer of a dead one gets the changes of that process', async () => {
  const fleet = createFleet()
  const [a, b] = [fleet.join('a'), fleet.join('b')]
  const end = fleet.silence()
  // It asks who reads: nobody yet.
  a.interrupt(() => {})
  const reading = read(b, ['acme'])
  end()
  const { seen } = await reading
  a.happen(changeOf('one', 0, 2))
  assert.deepEqual(seen, ['one accepted', 'one queued'])
})
