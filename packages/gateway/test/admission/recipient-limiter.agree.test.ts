/**
 * Tests notifications that are decided in the same moments and share some of their subjects: each of them takes its places
 * in one subject after the other, with other notifications in between. Seeded.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import { createRecipientLimiter } from '../../src/admission/recipient-limiter.ts'
import type { Notification } from '../../src/model.ts'
import type { LimitState, Subject } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { seeded, testSeed } from '../harness.ts'

const start = 1_000_000
const runs = 200
const rules = [limit('one', '1/min')]
const kinds = ['t//author', 't//module', 't:ada'].map((key) => ({ key, tenant: 't' }))

test(`no instant stays free that somebody who waits could have, whoever is decided beside them (seed ${testSeed})`, async () => {
  const draw = seeded(testSeed)
  for (let run = 0; run < runs; run += 1) {
    const clock = createVirtualClock(start)
    const memory = createMemoryState({
      clock,
      marginMs: 0,
      recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
    })
    const later = () =>
      new Promise<void>((resolve) => clock.at(clock.now() + 1 + Math.floor(draw() * 8), resolve))
    /** Each question takes its time on the way there and back. */
    const distant: LimitState = {
      ...memory,
      async preview(requests) {
        await later()
        const answers = await memory.preview(requests)
        await later()
        return answers
      },
      async reserve(requests) {
        await later()
        const answers = await memory.reserve(requests)
        await later()
        return answers
      },
    }
    const subjectsOf = new Map<string, readonly Subject[]>()
    const requestOf = (id: string) => subjectsOf.get(id)!.map((subject) => ({ subject, id, rules }))
    const limiter = createRecipientLimiter({
      state: distant,
      policy: {
        rulesFor: ({ id }: Notification) => subjectsOf.get(id)!.map((subject) => ({ subject, rules })),
      } as never,
      forbiddenHours: { forbidden: () => undefined, heldUntil: () => undefined } as never,
      clock,
      onFreed: (freed) => void moveUp(freed),
    })
    /** All who wait in these subjects move up, in the order of acceptance, until nobody gains. */
    async function moveUp(freed: readonly Subject[]): Promise<void> {
      for (const subject of freed) {
        for (let gains = true; gains; ) {
          gains = false
          for (const id of await memory.waiting(subject)) {
            const advanced = await memory.advance(requestOf(id))
            if (advanced === undefined) continue
            gains = true
            if (advanced.freed.length > 0) await moveUp(advanced.freed)
          }
        }
      }
      await memory.resume(freed)
    }
    const ids = Array.from({ length: 2 + Math.floor(draw() * 5) }, (_, n) => `n${n}`)
    const decided = ids.map(async (id) => {
      subjectsOf.set(
        id,
        kinds.filter(() => draw() < 0.6),
      )
      if (subjectsOf.get(id)!.length === 0) subjectsOf.set(id, [kinds[2]!])
      await later()
      const [reservation] = await limiter.reserve([{ notification: { id } as Notification, recipient: null }])
      assert.equal(reservation!.held, true)
    })
    await clock.runUntil(start + 30_000)
    await Promise.all(decided)
    for (const id of ids) {
      const advanced = await memory.advance(requestOf(id))
      const whose = ids.map((each) => `${each}: ${subjectsOf.get(each)!.map(({ key }) => key)}`).join('; ')
      assert.equal(advanced, undefined, `run ${run}: ${id} could leave at ${advanced?.at} (${whose})`)
    }
  }
})
