/** Records of a topic through the real gate: once each, in spite of repetitions, and poison with its bytes. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createDraftReader } from '../../src/http/draft-checks.ts'
import { createRecordAcceptor } from '../../src/intake/accept-record.ts'
import { createIntakePace, type IntakePace } from '../../src/intake/pace.ts'
import type { IntakeMessage } from '../../src/intake/read-record.ts'
import { createHarness, type Harness, second } from '../harness.ts'

const place = { topic: 'notifications', topicId: 'the-id', partition: 3, timestamp: 0 }
const body = {
  tenant: 'acme',
  module: 'shop',
  recipient: { id: 'ada', email: 'ada@example.com' },
  channel: 'email',
  content: { subject: 'Hello', text: 'Hello' },
}
const record = (offset: number, value: object | string = body, key?: string): IntakeMessage => ({
  ...place,
  offset,
  value: Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)),
  ...(key === undefined ? {} : { key }),
})

/** Different texts, which are no duplicates of each other. */
const numbered = (n: number) => ({ ...body, content: { subject: `Hello ${n}`, text: `Hello ${n}` } })

function acceptorOf({ gateway, clock }: Harness, pace: IntakePace = { begin: () => () => undefined }) {
  const errors: string[] = []
  const { accept } = createRecordAcceptor({
    gate: gateway.gate,
    store: gateway.store,
    readDraft: createDraftReader({
      recipients: { find: async () => null, forget() {} },
      offer: {
        templates: { has: () => false, hasSubject: () => false },
        channels: new Set(['email']),
        selfAddressed: new Set(),
        needsSubject: new Set(['email']),
        dataMaxBytes: 65_536,
      },
      clock,
    }),
    pace,
    clock,
    onError: (what, error) => errors.push(`${what}: ${error}`),
  })
  return { accept, errors }
}

const listed = async ({ gateway }: Harness, tenant = 'acme') =>
  (await gateway.store.list({ tenant, limit: 500 })).items

describe('acceptance of records', () => {
  it('accepts a position once, however often and by however many consumers it is read', async () => {
    const harness = await createHarness()
    const [one, two] = [acceptorOf(harness), acceptorOf(harness)]
    const outcomes = await harness.done(
      Promise.all([one.accept(record(7)), two.accept(record(7)), one.accept(record(8))]),
    )
    assert.deepEqual(outcomes.toSorted(), ['accepted', 'accepted', 'repeated'])
    assert.equal(await harness.done(two.accept(record(8))), 'repeated')
    assert.equal((await listed(harness)).length, 2)
    await harness.stop()
  })

  it('keeps a record as poison whose unknown field is cut within a character', async () => {
    const harness = await createHarness()
    const { accept } = acceptorOf(harness)
    const cut = `${'x'.repeat(99)}👋`
    for (const [offset, value] of [
      { ...body, [cut]: 1 },
      { ...body, [cut]: '\0' },
    ].entries())
      assert.equal(await harness.done(accept(record(offset, value))), 'poison')
    const { items } = await harness.gateway.store.intake.poison({ limit: 9 })
    assert.deepEqual(
      items.map(({ detail }) => detail.isWellFormed()),
      [true, true],
    )
    await harness.stop()
  })

  it('accepts a caller’s key once over all positions, and keeps another body under it as poison', async () => {
    const harness = await createHarness()
    const { accept } = acceptorOf(harness)
    assert.equal(await harness.done(accept(record(1, body, 'k'))), 'accepted')
    assert.equal(await harness.done(accept(record(2, body, 'k'))), 'repeated')
    assert.equal(await harness.done(accept(record(3, { ...body, priority: 'low' }, 'k'))), 'poison')
    assert.equal((await listed(harness)).length, 1)
    const { items } = await harness.gateway.store.intake.poison({ limit: 9 })
    assert.deepEqual(
      items.map(({ offset, detail }) => [offset, detail]),
      [[3, 'This key came with another body before.']],
    )
    await harness.stop()
  })

  it('keeps a record that no retry helps as poison, with its bytes, position and fault', async () => {
    const harness = await createHarness()
    const { accept } = acceptorOf(harness)
    const { tenant: _, ...unnamed } = body
    const poison = [
      record(1, '{"tenant":'),
      record(2, unnamed),
      record(3, { ...body, channel: 'sms' }),
      record(4, { ...body, urgent: true }),
      record(5, 'null'),
      { ...place, offset: 6, value: undefined },
      record(7, body, 'ключ'),
    ]
    for (const message of poison) assert.equal(await harness.done(accept(message)), 'poison')
    const { items } = await harness.gateway.store.intake.poison({ limit: 9 })
    assert.deepEqual(
      items.map(({ offset, tenant, bytes }) => [offset, tenant, Buffer.from(bytes).toString()]),
      poison.map(({ offset, value }) => [
        offset,
        [3, 4, 7].includes(offset) ? 'acme' : undefined,
        value?.toString() ?? '',
      ]),
    )
    assert.match(items[1]!.detail, /\/tenant is required/)
    assert.match(items[2]!.detail, /\/channel is not served here/)
    assert.equal((await listed(harness)).length, 0)
    await harness.stop()
  })

  it('leaves the records of a full tenant in the topic, and takes those of others meanwhile', async () => {
    const harness = await createHarness({
      config: { tenants: { acme: { rate: '1/10s', queue: 2 } } },
    })
    const { accept } = acceptorOf(harness)
    const take = async (...offsets: readonly number[]) => {
      const outcomes: string[] = []
      for (const offset of offsets)
        outcomes.push(await harness.done(accept(record(offset, numbered(offset)))))
      return outcomes
    }
    assert.deepEqual(await take(1, 2, 3, 4, 5), ['accepted', 'accepted', 'accepted', 'full', 'full'])
    assert.equal(await harness.done(accept(record(9, { ...body, tenant: 'other' }))), 'accepted')
    await harness.runFor(12 * second)
    assert.deepEqual(await take(4, 5), ['accepted', 'full'])
    assert.equal((await listed(harness)).length, 4)
    await harness.stop()
  })

  it('asks for a tenant that was found full once a second, whatever the number of its records', async () => {
    const harness = await createHarness({ config: { tenants: { acme: { rate: '1/h', queue: 1 } } } })
    let admissions = 0
    const { gate } = harness.gateway
    const counting: Harness['gateway'] = {
      ...harness.gateway,
      gate: {
        ...gate,
        admit(request) {
          admissions += 1
          return gate.admit(request)
        },
      },
    }
    const { accept } = acceptorOf({ ...harness, gateway: counting })
    for (const offset of [1, 2, 3]) await harness.done(accept(record(offset, numbered(offset))))
    assert.equal(admissions, 3)
    for (let offset = 4; offset < 100; offset += 1)
      assert.equal(await harness.done(accept(record(offset, numbered(offset)))), 'full')
    assert.equal(admissions, 3)
    await harness.runFor(second)
    assert.equal(await harness.done(accept(record(3, numbered(3)))), 'full')
    assert.equal(admissions, 4)
    await harness.stop()
  })

  it('leaves the records of a channel in the topic while its pools have no room', async () => {
    const harness = await createHarness()
    const { accept } = acceptorOf(harness, {
      begin: (channel) => (channel === 'email' ? undefined : () => undefined),
    })
    assert.equal(await harness.done(accept(record(1))), 'full')
    const push = { ...body, channel: 'push', recipient: { id: 'ada', pushToken: 'push-ada' } }
    assert.equal(
      await harness.done(accept(record(2, { ...push, content: { title: 'Hi', body: 'Hi' } }))),
      'poison',
    )
    await harness.stop()
  })

  it('accepts no more at once than the pools of a channel carry in two seconds', async () => {
    const harness = await createHarness()
    const { clock } = harness
    let waiting = 0
    const pace = createIntakePace({
      queue: { size: () => waiting },
      rateOf: () => 10,
      sheddingOf: () => undefined,
      clock,
    })
    const { accept } = acceptorOf(harness, pace)
    const take = (first: number) =>
      harness.done(
        Promise.all(Array.from({ length: 1_010 }, (_, n) => accept(record(first + n, numbered(first + n))))),
      )
    const count = (outcomes: readonly string[]) => outcomes.filter((outcome) => outcome === 'accepted').length
    assert.equal(count(await take(0)), 1_000)
    waiting = 995
    assert.equal(count(await take(2_000)), 5)
    await harness.stop()
  })

  it('leaves a record in the topic while the store does not answer, and keeps none of it as poison', async () => {
    let isAway = false
    const harness = await createHarness({
      wrap: (store) => ({
        ...store,
        commit: (change) =>
          isAway ? Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'away')) : store.commit(change),
      }),
    })
    const { accept } = acceptorOf(harness)
    isAway = true
    assert.equal(await harness.done(accept(record(1))), 'unavailable')
    isAway = false
    assert.equal(await harness.done(accept(record(1))), 'accepted')
    assert.deepEqual((await harness.gateway.store.intake.poison({ limit: 9 })).items, [])
    await harness.stop()
  })

  it('keeps the first 64 KiB of a record that is too long', async () => {
    const harness = await createHarness()
    const { accept } = acceptorOf(harness)
    const long = `"${'x'.repeat(2 ** 20)}"`
    assert.equal(await harness.done(accept(record(1, long))), 'poison')
    const [kept] = (await harness.gateway.store.intake.poison({ limit: 9 })).items
    assert.deepEqual([kept!.bytes.length, kept!.size], [65_536, long.length])
    await harness.stop()
  })
})
