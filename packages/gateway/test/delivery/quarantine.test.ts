/** A notification on which the program fails right before sending delays no other, and comes to an end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createQuarantine } from '../../src/delivery/quarantine.ts'
import type { Notification } from '../../src/model.ts'
import { createSandbox } from '../../src/providers/sandbox/adapter.ts'
import { createHarness, minute, second } from '../harness.ts'

test('a notification on which the program fails delays no other, and ends as a dead letter with the error', async () => {
  const harness = await createHarness({
    providers: (clock) => [
      {
        ...createSandbox({ clock }),
        endpointOf({ email }) {
          if (email === 'eve@example.com') throw new TypeError('no such endpoint')
          return undefined
        },
      },
    ],
  })
  const sendAt = harness.start + minute
  const posted = [
    ...(await harness.postMany(
      Array.from({ length: 20 }, (_, index) => ({ recipient: index === 7 ? 'eve' : `p${index}`, sendAt })),
    )),
  ]
  const [eve] = posted.splice(7, 1)
  await harness.runUntil(sendAt + second)
  for (const { id } of posted) {
    const { status, timeline } = await harness.notification(id)
    assert.equal(status, 'delivered')
    assert.ok(timeline.at(-1)!.at - sendAt < second / 2, 'in time')
  }
  assert.equal((await harness.notification(eve!.id)).status, 'scheduled', 'it waits in memory')
  await harness.runFor(minute)
  const { status, timeline } = await harness.notification(eve!.id)
  const { at, reason, detail } = timeline.at(-1)!
  assert.deepEqual([status, reason, detail], ['dead', 'poison', 'it cannot be handed over: no such endpoint'])
  assert.equal(at - sendAt, 25_400)
  await harness.check()
  await harness.stop()
})

test('a recovered notification is forgotten, and remembered failures are bounded', () => {
  const waits: number[] = []
  const quarantine = createQuarantine({
    ledger: { live: () => undefined },
    scheduler: { postpone: (_, at) => waits.push(at) },
    clock: { now: () => 0 },
  })
  const one = (id: string): Notification => ({ id, timeline: [] }) as unknown as Notification
  quarantine.add(one('x'), new Error('once'))
  quarantine.add(one('x'), new Error('twice'))
  quarantine.release('x')
  quarantine.add(one('x'), new Error('again'))
  for (let index = 0; index < 10_000; index += 1) quarantine.add(one(`y${index}`), new Error('too'))
  quarantine.add(one('x'), new Error('and again'))
  assert.deepEqual([...waits.slice(0, 3), waits.at(-1)], [200, 400, 200, 200])
})
