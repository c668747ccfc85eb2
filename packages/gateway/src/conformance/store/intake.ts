/** Intakes on record: how far each partition has been taken, and the records that could not be accepted. */
import assert from 'node:assert/strict'
import type { IntakePosition, PoisonRecord } from '../../ports/intake.ts'
import type { StoredAnswer } from '../../ports.ts'
import { epoch, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'

const topicId = '01234567-89ab-cdef-0123-456789abcdef'
const at = (patch: Partial<IntakePosition> = {}): IntakePosition => ({
  topicId,
  partition: 0,
  next: 10,
  ahead: [],
  ...patch,
})
const somePoison = (patch: Partial<PoisonRecord> = {}): PoisonRecord => ({
  topicId,
  partition: 0,
  offset: 3,
  topic: 'notifications',
  tenant: 'acme',
  detail: 'The record is no JSON.',
  bytes: Uint8Array.from([0, 255, 123, 10]),
  size: 70_000,
  at: epoch,
  ...patch,
})

export function intake(test: Test, capabilities: StoreCapabilities): void {
  test('joins positions, so a consumer that has lost its partition takes nothing back', async (store) => {
    await store.intake.advance([at({ ahead: [12, 15] }), at({ partition: 2, next: 2 ** 40 })])
    await store.intake.advance([at({ topicId: 'another', next: 1 })])
    await store.intake.advance([])
    assert.deepEqual(await store.intake.positions(topicId), [
      at({ ahead: [12, 15] }),
      at({ partition: 2, next: 2 ** 40 }),
    ])
    await store.intake.advance([at({ next: 13, ahead: [14] })])
    await store.intake.advance([at({ next: 9, ahead: [10, 17] })])
    assert.deepEqual((await store.intake.positions(topicId))[0], at({ next: 13, ahead: [14, 15, 17] }))
    assert.deepEqual(await store.intake.positions('unknown'), [])
  })

  test('joins positions that two consumers write at once', async (store) => {
    await Promise.all([
      store.intake.advance([at({ ahead: [12] }), at({ partition: 1 })]),
      store.intake.advance([at({ partition: 1, next: 11 }), at({ ahead: [14] })]),
    ])
    assert.deepEqual(await store.intake.positions(topicId), [
      at({ ahead: [12, 14] }),
      at({ partition: 1, next: 11 }),
    ])
  })

  test('keeps a record that cannot be accepted once, with its bytes, and lists it by pages', async (store) => {
    const { tenant: _, ...unnamed } = somePoison({ offset: 4, detail: 'Nothing\u2028to read – 👋' })
    const records = [somePoison(), unnamed, somePoison({ offset: 5, bytes: new Uint8Array(0) })]
    await store.intake.keepPoison(records)
    await store.intake.keepPoison([somePoison({ detail: 'another', at: epoch + 1 })])
    await store.intake.keepPoison([])
    const first = await store.intake.poison({ limit: 2 })
    assert.deepEqual(first.items, records.slice(0, 2))
    const second = await store.intake.poison({ limit: 2, cursor: first.nextCursor! })
    assert.deepEqual(second, { items: records.slice(2), nextCursor: null })
    const ofTenant = await store.intake.poison({ tenant: 'acme', limit: 9 })
    assert.deepEqual(ofTenant.items, [records[0], records[2]])
  })

  test('keeps a record whose fault names a NUL and half of a character', async (store) => {
    await store.intake.keepPoison([somePoison({ detail: '/\0\ud83d… is not a known field.' })])
    const { items } = await store.intake.poison({ limit: 9 })
    assert.match(items[0]!.detail, /… is not a known field\.$/)
  })

  test('counts records that cannot be accepted by tenant', async (store) => {
    assert.deepEqual(await store.intake.countPoison(), [])
    const { tenant: _, ...unnamed } = somePoison({ offset: 4, at: epoch + 2 })
    await store.intake.keepPoison([
      somePoison({ at: epoch + 1 }),
      unnamed,
      somePoison({ offset: 5, at: epoch + 3 }),
    ])
    const counts = await store.intake.countPoison()
    assert.deepEqual(
      counts.toSorted((a, b) => b.count - a.count),
      [
        { tenant: 'acme', count: 2, oldestAt: epoch + 1 },
        { count: 1, oldestAt: epoch + 2 },
      ],
    )
  })

  test('removes old records that could not be accepted', async (store) => {
    const young = somePoison({ offset: 4, at: epoch + 10 })
    await store.intake.keepPoison([somePoison({ at: epoch + 9 }), young])
    assert.equal(await store.intake.prunePoison(epoch + 10), 1)
    assert.deepEqual((await store.intake.poison({ limit: 9 })).items, [young])
  })

  test('refuses a second acceptance of one position, and leaves nothing of it', async (store) => {
    const answer: StoredAnswer = {
      tenant: 'acme',
      module: 'shop',
      method: 'KAFKA',
      path: `${topicId}/0`,
      key: '7',
      requestHash: '',
      status: 202,
      body: '',
      createdAt: epoch,
    }
    const [one, two] = [someNotification(), someNotification()]
    const results = await Promise.all([
      store.commit({ accept: [one], answer }),
      store.commit({ accept: [two], answer: { ...answer, createdAt: epoch + 1 } }),
    ])
    assert.deepEqual(results.map(({ applied }) => applied).sort(), [false, true])
    const kept = await Promise.all([one, two].map(({ tenant, id }) => store.notification(tenant, id)))
    assert.equal(kept.filter((each) => each !== undefined).length, 1)
  })

  if (capabilities.durable)
    test('keeps positions and records through a restart', async (store, context) => {
      await store.intake.advance([at({ ahead: [12] })])
      await store.intake.keepPoison([somePoison()])
      const again = await context.reopen()
      assert.deepEqual(await again.intake.positions(topicId), [at({ ahead: [12] })])
      assert.deepEqual((await again.intake.poison({ limit: 1 })).items, [somePoison()])
    })
}
