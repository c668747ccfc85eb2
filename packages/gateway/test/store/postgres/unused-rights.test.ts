/** Rights to send that a process was given and does not use: it ends them, and the others see what waits as it is. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { ids } from '../../../src/conformance/store/suite.ts'
import { advance } from '../../../src/model.ts'
import { dropSchemas, openAt, schemaUrl } from './database.ts'

describe('rights to send on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('end where they are not used; a later right to the same notification, and that of another process, stay', async (t) => {
    const url = schemaUrl('unused')
    const clock = stillClock(epoch)
    const [a, b] = [await openAt(url, clock, '1'), await openAt(url, clock, '2')]
    t.after(() => Promise.all([a.close(), b.close()]))
    const [waits, again, others] = [someNotification(), someNotification({ job: 'j' }), someNotification()]
    await a.commit({ accept: [waits, again, others] })
    await a.begin([{ notification: waits }, { notification: again }])
    await b.begin([{ notification: others }])
    assert.ok((await a.heldOnRecord(epoch - 1, null, 9)).every(({ right }) => right === undefined))
    const held = await a.heldOnRecord(epoch + 1_000, null, 9)
    assert.deepEqual(ids(held), ids([waits, again]))
    clock.set(epoch + 1_000)
    await a.begin([{ notification: again }])
    await a.endRights([...held, { ...others, right: epoch }])
    const shown = await Promise.all([waits, again].map(({ id }) => b.notification('acme', id)))
    assert.deepEqual(
      shown.map((each) => [each?.status, each?.begunAt]),
      [
        ['queued', undefined],
        ['sending', epoch + 1_000],
      ],
    )
    const members = await b.jobMembers({ tenant: 'acme', id: 'j' })
    assert.deepEqual(members, [{ id: again.id, status: 'sending' }], 'also among those of its job')
    assert.equal((await a.notification('acme', others.id))?.status, 'sending')
    const cancelled = advance(waits, [{ at: epoch + 1_000, status: 'cancelled' }])
    assert.deepEqual(await b.commit({ moves: [cancelled] }), { applied: true })
  })
})
