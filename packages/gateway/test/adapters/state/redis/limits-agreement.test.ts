/**
 * Two processes decide notifications in the same moments that share some of their subjects: each takes its places in one
 * subject after the other, with those of the other process in between. What is drawn is seeded; the server decides who
 * comes first.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRecipientLimiter } from '../../../../src/admission/recipient-limiter.ts'
import type { Notification } from '../../../../src/model.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { seeded, testSeed } from '../../../harness.ts'
import { engines } from './open.ts'
import { openLimits } from './open-limits.ts'

const runs = 50
const rules = [limit('one', '1/min')]

for (const engine of engines)
  describe(`the limits on ${engine}`, needs(engine), () => {
    it(`leave no instant free that somebody who waits could have, whoever is decided beside them (seed ${testSeed})`, async () => {
      const draw = seeded(testSeed)
      const { openState, now } = openLimits(engine)
      const later = (): Promise<void> => sleep(Math.floor(draw() * 6))
      /** Each question takes its time on the way there and back. */
      const distant = (state: LimitState): LimitState => ({
        ...state,
        async preview(requests) {
          await later()
          const answers = await state.preview(requests)
          await later()
          return answers
        },
        async reserve(requests) {
          await later()
          const answers = await state.reserve(requests)
          await later()
          return answers
        },
      })
      for (let run = 0; run < runs; run += 1) {
        const subjectsOf = new Map<string, readonly Subject[]>()
        const kinds = ['author', 'module', 'ada'].map((name) => ({
          key: `t${run}/${name}`,
          tenant: `t${run}`,
        }))
        const requestOf = (id: string) => subjectsOf.get(id)!.map((subject) => ({ subject, id, rules }))
        const working = new Set<Promise<void>>()
        const recorded = new Set<string>()
        /** Looked at by those who move up before they are on record: they are looked at again then, as in unrecorded.ts. */
        const missed = new Set<string>()
        const fleet = Array.from({ length: 2 }, () => {
          const state: LimitState = openState({
            onOutdated: (subject) => begin(moveUp(state, [subject])),
          })
          return { state, limiter: limiterOf(state) }
        })

        function limiterOf(state: LimitState) {
          return createRecipientLimiter({
            state: distant(state),
            policy: {
              rulesFor: ({ id }: Notification) => subjectsOf.get(id)!.map((subject) => ({ subject, rules })),
            } as never,
            forbiddenHours: { forbidden: () => undefined, heldUntil: () => undefined } as never,
            clock: { now } as never,
            onFreed: (freed) => begin(moveUp(state, freed)),
          })
        }

        function begin(moving: Promise<void>): void {
          const work = moving.finally(() => working.delete(work))
          working.add(work)
        }

        /** All who wait in these subjects move up, in the order of acceptance, until nobody gains. */
        async function moveUp(state: LimitState, freed: readonly Subject[]): Promise<void> {
          for (const subject of freed)
            for (let gains = true; gains; ) {
              gains = false
              for (const id of await state.waiting(subject)) {
                if (!recorded.has(id)) missed.add(id)
                const advanced = await state.advance(requestOf(id))
                if (advanced === undefined) continue
                gains = true
                if (advanced.freed.length > 0) await moveUp(state, advanced.freed)
              }
            }
          // Others are decided meanwhile.
          await later()
          await state.resume(freed)
        }

        const ids = Array.from({ length: 2 + Math.floor(draw() * 5) }, (_, n) => `n${n}`)
        for (const id of ids) {
          const own = kinds.filter(() => draw() < 0.6)
          subjectsOf.set(id, own.length > 0 ? own : [kinds[2]!])
        }
        await Promise.all(
          ids.map(async (id, index) => {
            const { state, limiter } = fleet[index % 2]!
            await later()
            const [reservation] = await limiter.reserve([
              { notification: { id } as Notification, recipient: null },
            ])
            assert.equal(reservation!.held, true)
            recorded.add(id)
            if (!missed.has(id)) return
            const subjects = subjectsOf.get(id)!
            begin(state.pause(subjects).then(() => moveUp(state, subjects)))
          }),
        )
        while (working.size > 0) await Promise.all(working)
        for (const id of ids) {
          const advanced = await fleet[0]!.state.advance(requestOf(id))
          const whose = ids
            .map((each) => `${each}: ${subjectsOf.get(each)!.map(({ key }) => key)}`)
            .join('; ')
          assert.equal(advanced, undefined, `run ${run}: ${id} could leave at ${advanced?.at} (${whose})`)
        }
      }
    })
  })
