/** The conformance suite of the port that counts the room of tenants: `exerciseRoom` runs it on any state. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Room, RoomState, RoomTaken, TenantBounds } from '../ports/tenants.ts'

const bounds: TenantBounds = { queueMax: 10, waitingMax: 5, bytesMax: 1_000 }
const room = (more: Partial<Room>): Room => ({ queue: 0, critical: 0, waiting: 0, ...more })

/** Registers the suite `name` with node:test. `open` gives a state that has counted nothing. */
export function exerciseRoom(name: string, open: () => RoomState | Promise<RoomState>): void {
  const take = (state: RoomState, more: Partial<Room>, tenant = 'acme'): RoomTaken | Promise<RoomTaken> =>
    state.take(tenant, room(more), bounds)
  async function taken(state: RoomState, more: Partial<Room>, tenant?: string): Promise<() => void> {
    const answer = await take(state, more, tenant)
    assert.ok('giveBack' in answer, JSON.stringify(answer))
    return answer.giveBack
  }

  describe(name, () => {
    it('gives each bound up to its maximum, and names the full one with its use', async () => {
      const state = await open()
      await taken(state, { queue: 10 })
      assert.deepEqual(await take(state, { queue: 1 }), { full: 'queue', used: 10 })
      await taken(state, { waiting: 4 })
      assert.deepEqual(await take(state, { waiting: 2 }), { full: 'waiting', used: 4 })
      await taken(state, { waiting: 1, bytes: 900 })
      assert.deepEqual(await take(state, { bytes: 101 }), { full: 'bytes', used: 900 })
      assert.deepEqual(state.of('acme'), { queue: 10, waiting: 5, bytes: 900 })
      await taken(state, {})
      await taken(state, { queue: 10, waiting: 5, bytes: 1_000 }, 'other')
    })

    it('gives critical notifications a tenth on top', async () => {
      const state = await open()
      await taken(state, { queue: 10, bytes: 1_000 })
      await taken(state, { critical: 1, bytes: 100 })
      assert.deepEqual(await take(state, { critical: 1 }), { full: 'queue', used: 11 })
    })

    it('refuses a request as a whole, and takes nothing for it', async () => {
      const state = await open()
      await taken(state, { queue: 8 })
      assert.deepEqual(await take(state, { queue: 3, waiting: 1, bytes: 10 }), { full: 'queue', used: 8 })
      assert.deepEqual(state.of('acme'), { queue: 8, waiting: 0, bytes: 0 })
    })

    it('takes room back once, however often it is given back', async () => {
      const state = await open()
      const giveBack = await taken(state, { queue: 2, critical: 1, waiting: 2, bytes: 7 })
      await taken(state, { queue: 7 })
      giveBack()
      giveBack()
      assert.deepEqual(state.of('acme'), { queue: 7, waiting: 0, bytes: 0 })
      await taken(state, { queue: 3 })
    })

    it('counts what is on record beside what is taken', async () => {
      const state = await open()
      const giveBack = await taken(state, { queue: 6, bytes: 60 })
      state.count('acme', { queue: 6, bytes: 60 })
      giveBack()
      assert.deepEqual(await take(state, { queue: 5 }), { full: 'queue', used: 6 })
      state.count('acme', { queue: -2, waiting: 1 })
      await taken(state, { queue: 6 })
      assert.deepEqual(state.of('acme'), { queue: 10, waiting: 1, bytes: 60 })
    })

    it('gives the last place to one of a hundred that come at once', async () => {
      const state = await open()
      await taken(state, { queue: 9 })
      const answers = await Promise.all(Array.from({ length: 100 }, () => take(state, { queue: 1 })))
      assert.equal(answers.filter((each) => 'giveBack' in each).length, 1)
    })
  })
}
