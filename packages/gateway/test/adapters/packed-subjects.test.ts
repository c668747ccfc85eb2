/** Recipients who left the memory of the limiter are counted as if they had stayed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { seededRandom } from '@sluice/limits-conformance'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import { createPackedSubjects } from '../../src/adapters/state/packed-subjects.ts'
import type { Clock, LimitRequest, Subject } from '../../src/ports.ts'

const rules = [
  limit('mail', '2/min, 20/h', { stream: 'mail' }),
  limit('all', '4/min', { stream: 'each "one" \n of ünicode' }),
]
const nothing = { entries: [], fingerprints: [], waitlist: [] }

const subjectOf = (name: string): Subject => ({ key: `default:${name}`, tenant: 'default', recipient: name })

test('a recipient who left the memory with nothing booked is counted without a question to the store', async () => {
  const asked: string[] = []
  const state = createMemoryState({
    clock: { now: () => 1_000 } as Clock,
    marginMs: 0,
    subjectsMax: 2,
    recover: ({ key }) => {
      asked.push(key)
      return nothing
    },
  })
  const names = ['ada', 'ben', 'cem', 'dan', 'eve']
  for (const round of [1, 2])
    for (const name of names) {
      const subject = subjectOf(name)
      const [reservation] = await state.reserve([{ subject, id: `${name}-${round}`, rules }])
      assert.equal(reservation!.at, 1_000)
      await state.fire([{ subject, id: `${name}-${round}`, rules }])
      assert.equal(reservation!.rules[0]!.used, round - 1)
    }
  assert.deepEqual(
    asked,
    names.map((name) => subjectOf(name).key),
  )
})

test('answers are the same with room for two recipients in memory and for all of them (random operations)', async () => {
  const seed = 20_261_122
  console.log(`seed ${seed}`)
  const { below, once } = seededRandom(seed)
  let now = 1_000_000
  const clock = { now: () => now } as Clock
  const known = new Set<string>()
  const small = createMemoryState({
    clock,
    marginMs: 0,
    subjectsMax: 2,
    recover: ({ key }) => {
      assert.ok(!known.has(key), `${key} was forgotten`)
      known.add(key)
      return nothing
    },
  })
  const large = createMemoryState({ clock, marginMs: 0, recover: () => nothing })
  const both = async (ask: (state: typeof small) => unknown): Promise<unknown> => {
    const answers = [await ask(small), await ask(large)]
    assert.deepEqual(answers[0], answers[1])
    return answers[0]
  }
  let admitted = 0
  for (let step = 0; step < 3_000; step += 1) {
    now += below(20_000)
    const subject = subjectOf(`user-${below(12)}`)
    const request: LimitRequest = {
      subject,
      id: `n-${below(2_000)}`,
      rules: once(2) ? rules : rules.slice(0, 1),
      // Nothing is booked ahead: a recipient with a reservation is read from the record.
      horizonMs: 0,
    }
    const of = { ...request, id: `${subject.key}-${request.id}` }
    const kind = below(10)
    if (kind < 5) {
      const [answer] = (await both(async (state) =>
        (
          await state.reserve([of])
        ).map(({ held, at, limit: name, rules: rows }) => ({ held, at, name, rows: [...rows] })),
      )) as { held: boolean }[]
      if (!answer!.held) continue
      admitted += 1
      const [release] = (await both((state) => state.fire([of]))) as { fired: boolean }[]
      // It stays booked for later, and the record would decide.
      if (!release!.fired) await both((state) => state.cancel([of]))
    } else if (kind < 6) await both((state) => state.cancel([of]))
    else if (kind < 7) await both((state) => state.force([of]))
    else if (kind < 8) await both((state) => state.waiting(subject))
    else {
      const claim = { subject, fingerprint: `f-${below(3)}`, id: of.id, windowMs: 20_000 }
      if (once(3)) await both((state) => state.releaseFingerprints([claim]))
      else await both((state) => state.holdFingerprints([claim]))
    }
  }
  assert.ok(admitted > 500, `${admitted} were admitted`)
})

test('a recipient with a reservation is not packed: the record decides who moves up', () => {
  const packed = createPackedSubjects(10_000)
  const streams = ['mail']
  packed.put(
    'a',
    [
      { id: '1', at: 1, fired: true, streams },
      { id: '2', at: 2, fired: false, streams },
    ],
    undefined,
  )
  assert.equal(packed.size, 0)
})

test('packed recipients are bounded by their characters, and the oldest go first', () => {
  const packed = createPackedSubjects(10_000)
  for (let n = 0; n < 1_000; n += 1)
    packed.put(`key-${n}`, [{ id: `id-${n}`, at: n, fired: true, streams: ['mail'] }], undefined)
  assert.ok(packed.size > 50 && packed.size < 100, `${packed.size} are kept`)
  assert.equal(packed.take('key-0'), undefined)
  for (let n = 1_000 - packed.size; n < 1_000; n += 1)
    assert.deepEqual(packed.take(`key-${n}`)?.entries, [
      { id: `id-${n}`, at: n, fired: true, streams: ['mail'] },
    ])
  assert.equal(packed.size, 0)
  packed.put('again', [], new Map([['f', { id: 'n', at: 3 }]]))
  assert.deepEqual(packed.take('again'), {
    entries: [],
    fingerprints: [{ fingerprint: 'f', id: 'n', at: 3 }],
    waitlist: [],
  })
})

test('a recipient who is read again after a reload, while memory is full, keeps what counted', async () => {
  const seed = 20_261_123
  console.log(`seed ${seed}`)
  const { below, once } = seededRandom(seed)
  const recorded = new Map<string, { id: string; at: number; fired: true; streams: string[] }[]>()
  const state = createMemoryState({
    clock: { now: () => 1_000 } as Clock,
    marginMs: 0,
    subjectsMax: 4,
    recover: ({ key }) => ({ ...nothing, entries: recorded.get(key) ?? [] }),
  })
  for (let step = 0; step < 500; step += 1) {
    const subject = subjectOf(`user-${below(8)}`)
    const counted = recorded.get(subject.key) ?? []
    const request = { subject, id: `n-${step}`, rules: rules.slice(0, 1), horizonMs: 0 }
    const [answer] = await state.reserve([request])
    assert.equal(answer!.allowed, counted.length < 2, `${subject.key} in step ${step}: 2/min`)
    if (once(5)) state.renew()
    if (!answer!.held) continue
    await state.fire([request])
    recorded.set(subject.key, [
      ...counted,
      { id: request.id, at: 1_000, fired: true, streams: [rules[0]!.stream] },
    ])
  }
})

test('a question about more recipients than memory has room for is answered, and all of them count', {
  timeout: 10_000,
}, async () => {
  const state = createMemoryState({
    clock: { now: () => 1_000 } as Clock,
    marginMs: 0,
    subjectsMax: 2,
    // Every other one is read from the store.
    recover: ({ key }) => (key.endsWith('0') ? nothing : Promise.resolve(nothing)),
  })
  const requests = Array.from({ length: 20 }, (_, index) => ({
    subject: subjectOf(`user-${index % 10}-${index % 2}`),
    id: `n-${index}`,
    rules: rules.slice(0, 1),
    horizonMs: 0,
  }))
  const first = await state.reserve(requests)
  assert.ok(
    first.every(({ allowed }) => allowed),
    'each has two a minute',
  )
  const fired = await state.fire(requests)
  assert.ok(
    fired.every((each) => each.fired),
    'and both leave',
  )
  const third = await state.reserve(requests.map((each) => ({ ...each, id: `${each.id}-again` })))
  assert.ok(
    third.every(({ allowed }) => !allowed),
    'the third has to wait',
  )
})
