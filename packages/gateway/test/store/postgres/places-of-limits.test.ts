/** The places in which gateways count limits, as the record knows them, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import type { PlacedLife } from '../../../src/ports/limiter.ts'
import { dropSchemas, joinAt, schemaUrl } from './database.ts'

const clock = createSystemClock()

interface Place {
  readonly node?: string
  readonly runId?: string
  readonly keyspace?: string
  readonly masters?: readonly string[]
}

const lifeAt = ({
  node = 'redis:1',
  runId = node,
  keyspace = 'keys',
  masters = [node],
}: Place): PlacedLife => ({
  node,
  runId,
  replicationId: 'p',
  place: { keyspace, masters },
})

/** Starts a gateway on the record, which registers its servers by what it is given. */
async function start(url: string) {
  const { members, store, registrations } = await joinAt(url, clock, { beatMs: 2_000 })
  return {
    register: async (place: Place) => await registrations.register(lifeAt(place)),
    newest: () => registrations.newest(),
    async stop() {
      await members.close()
      await store.close()
    },
  }
}

const elsewhere = (place: RegExp) => ({ code: 'STATE_UNAVAILABLE', message: place })

describe('the place of the limits', needs('postgres'), () => {
  after(dropSchemas)

  for (const [name, other] of Object.entries<Place>({
    'another Redis': { node: 'redis:2' },
    'another database of the same Redis': { keyspace: 'other keys' },
    'another cluster': { node: 'y1', masters: ['y1', 'y2'] },
  }))
    test(`is refused to a gateway with ${name} while others count in the first, and forgotten behind them`, async () => {
      const url = schemaUrl('places')
      const first = { node: 'redis:1', masters: ['redis:1', 'x2'] }
      const a = await start(url)
      const before = await a.register(first)
      const second = await a.register({ ...first, node: 'x2' })
      const b = await start(url)
      await assert.rejects(
        b.register(other),
        elsewhere(/count limits in the keys of (x2|redis:1), and this one would/),
      )
      await assert.rejects(b.register(other), elsewhere(/until they have stopped/))
      assert.equal(await a.register(first), before, 'those that run go on')
      assert.equal((await a.newest()).size, 2)
      await a.stop()
      const moved = await b.register(other)
      assert.ok(moved > second)
      assert.deepEqual(await b.newest(), new Map([[other.node ?? 'redis:1', moved]]))
      assert.equal(await b.register(other), moved)
      await b.stop()
      const c = await start(url)
      const back = await c.register(first)
      assert.ok(back > moved, 'it lacks what was sent since it was left')
      await c.stop()
    })

  test('is the same under another name, behind a fail-over, and with another master of its cluster', async () => {
    const url = schemaUrl('one_place')
    const a = await start(url)
    const first = await a.register({ node: 'redis:1' })
    const b = await start(url)
    assert.equal(await b.register({ node: 'name:1', runId: 'redis:1' }), first)
    const c = await start(url)
    assert.ok((await c.register({ node: 'redis:1', runId: 'promoted' })) > first)
    const d = await start(url)
    assert.ok((await d.register({ node: 'x2', masters: ['redis:1', 'x2'] })) > first)
    assert.deepEqual(
      new Set((await d.newest()).keys()),
      new Set(['redis:1', 'name:1', 'x2']),
      'nothing is forgotten',
    )
    for (const { stop } of [a, b, c, d]) await stop()
  })

  test('is not forgotten where all of its gateways find another Redis behind the same name', async () => {
    const url = schemaUrl('same_name')
    const a = await start(url)
    const first = await a.register({ node: 'redis:1' })
    const b = await start(url)
    const promoted = await b.register({ node: 'redis:1', runId: 'other' })
    assert.ok(promoted > first)
    assert.equal(await a.register({ node: 'redis:1', runId: 'other' }), promoted)
    for (const { stop } of [a, b]) await stop()
  })

  test('is not forgotten by a gateway with another one while a gateway keeps the limits', async () => {
    const url = schemaUrl('kept_place')
    const a = await joinAt(url, clock, { beatMs: 2_000 })
    await a.registrations.register(lifeAt({}))
    const { number } = await a.keeping.standIn()
    assert.ok(number !== undefined)
    const b = await start(url)
    await assert.rejects(b.register({ node: 'redis:2' }), { code: 'STATE_UNAVAILABLE' })
    assert.deepEqual(await b.newest(), new Map([['redis:1', number]]))
    await b.stop()
    await a.members.close()
    await a.store.close()
  })
})
