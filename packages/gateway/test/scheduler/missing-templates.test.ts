/** Notifications whose template this process lacks, where the store fails meanwhile or they have gone another way. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Notification, Payload } from '../../src/model.ts'
import { createMissingTemplates } from '../../src/scheduler/missing-templates.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const { content: _, ...bare } = someNotification()
const lacked = (id: string): Notification => ({ ...bare, id, template: 'x' })

function setUp(payload: Payload | Error = { data: {} }) {
  const clock = createVirtualClock(0)
  const held = new Map<string, Notification>()
  const seen = { asked: 0, released: [] as string[], queued: [] as string[], recovered: [] as string[] }
  const faults = { ask: false, release: false, tell: 0 }
  const told: (readonly string[])[] = []
  const others = new Set(['x/email'])
  const own = { keys: ['y/email'] }
  const namesOf = (list: readonly Notification[]) => list.map(({ id }) => id)
  const missing = createMissingTemplates({
    store: {
      async releaseDue(given) {
        if (faults.release) throw new SluiceError('STORE_UNAVAILABLE', 'away')
        seen.released.push(...namesOf(given))
      },
      async tellTemplates(keys) {
        faults.tell -= 1
        if (faults.tell >= 0) throw new SluiceError('STORE_UNAVAILABLE', 'away')
        told.push(keys)
      },
      async templatesOfOthers(keys) {
        seen.asked += 1
        if (faults.ask) throw new SluiceError('STORE_UNAVAILABLE', 'away')
        return keys.filter((key) => others.has(key))
      },
    },
    ledger: {
      isCurrent: (of) => held.get(of.id) === of,
      release: ({ id }) => void held.delete(id),
    },
    queue: { push: async (list) => void seen.queued.push(...namesOf(list)) },
    contents: {
      of() {
        if (payload instanceof Error) throw payload
        return payload
      },
    },
    carried: () => ({
      has: (template, channel) => own.keys.includes(`${template}/${channel}`),
      keys: own.keys,
    }),
    served: new Set(['email'] as const),
    recover: async ({ id }) => void seen.recovered.push(id),
    clock,
    onError: () => {},
  })
  function pulled(...list: readonly Notification[]): void {
    for (const each of list) held.set(each.id, each)
    missing.giveUp(list)
  }
  return { clock, held, seen, faults, others, own, told, missing, pulled }
}

test('what is taken out of the queue is recovered while the store does not answer', async () => {
  for (const fault of ['ask', 'release'] as const) {
    const { clock, held, seen, faults, missing, pulled } = setUp()
    faults[fault] = true
    pulled(lacked('a'), lacked('b'))
    await clock.runUntil(500)
    assert.deepEqual([seen.recovered, held.size], [[], 0])
    await clock.runUntil(1_500)
    assert.deepEqual(seen.recovered, ['a', 'b'])
    assert.deepEqual([seen.released, seen.queued], [[], []])
    await missing.stop()
  }
})

test('a notification that is in the queue again is not recovered with those that could not be given back', async () => {
  const { clock, held, seen, faults, others, missing, pulled } = setUp()
  others.delete('x/email')
  others.add('z/email')
  faults.release = true
  const own = { ...lacked('own'), shared: { id: 'c', bytes: 1 } }
  const [text, left] = [
    { ...own, content: { text: 'own' } } as Notification,
    { ...lacked('left'), template: 'z' },
  ]
  pulled(text, left)
  await clock.runUntil(1_500)
  assert.deepEqual([seen.queued, seen.recovered, held.has('own')], [['own'], ['left'], true])
  await missing.stop()
})

test('a claim of a notification whose text is kept apart is no matter of its template', async () => {
  const { seen, missing } = setUp({ content: { text: 'own' } })
  const claimed = [{ ...lacked('a'), shared: { id: 'c', bytes: 1 } }]
  assert.deepEqual(await missing.ownOf(claimed), claimed)
  assert.deepEqual([seen.asked, seen.released, missing.left()], [0, [], []])
  await missing.stop()
})

test('claims are kept while the store does not answer, and decided when they leave the queue', async () => {
  const { clock, seen, faults, missing, pulled } = setUp()
  const claimed = [lacked('a'), someNotification()]
  faults.ask = true
  assert.equal(await missing.ownOf(claimed), claimed)
  assert.ok(missing.isMissing(claimed[0]!))
  assert.ok(!missing.isMissing(claimed[1]!))
  faults.ask = false
  pulled(claimed[0]!)
  await clock.runUntil(10)
  assert.deepEqual([seen.released, seen.queued, missing.left()], [['a'], [], ['x/email']])
  await missing.stop()
})

test('what was cancelled meanwhile is neither given back nor queued', async () => {
  const { clock, held, seen, missing, pulled } = setUp()
  pulled(lacked('a'), lacked('b'))
  held.delete('a')
  await clock.runUntil(10)
  assert.deepEqual([seen.released, seen.queued, held.size], [['b'], [], 0])
  await missing.stop()
})

test('a content that is kept apart is sent here, and one that is gone fails here', async () => {
  const gone = new SluiceError('NOT_FOUND', 'gone')
  for (const payload of [{ content: { text: 'hi' } }, gone]) {
    const { clock, seen, missing, pulled } = setUp(payload)
    const apart = { ...lacked('a'), shared: { id: 'c', bytes: 1 } }
    pulled(apart, lacked('b'))
    await clock.runUntil(10)
    assert.deepEqual([seen.queued, seen.released], [['a'], ['b']])
    assert.ok(!missing.isMissing(apart))
    await missing.stop()
  }
})

test('the record is asked once for a page of claims, then every few seconds, until nothing is lacked', async () => {
  const { clock, seen, own, missing } = setUp()
  assert.deepEqual(missing.left(), [])
  assert.deepEqual(await missing.ownOf(Array.from({ length: 100 }, (_each, n) => lacked(`n${n}`))), [])
  assert.equal(seen.asked, 1)
  await clock.runUntil(21_000)
  assert.equal(seen.asked, 5)
  own.keys = ['x/email']
  assert.deepEqual(missing.left(), [])
  await clock.runUntil(60_000)
  assert.equal(seen.asked, 5)
  await missing.stop()
})

test('the templates of served channels are told until the record has taken them, the newest last', async () => {
  const { clock, faults, own, told, missing } = setUp()
  faults.tell = 2
  missing.tell()
  await clock.runUntil(1_500)
  assert.deepEqual(told, [])
  own.keys = ['x/email', 'x/sms']
  missing.tell()
  await clock.runUntil(5_000)
  assert.deepEqual(told, [['x/email']])
  await missing.stop()
})
