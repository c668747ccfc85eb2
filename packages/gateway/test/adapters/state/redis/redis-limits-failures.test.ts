/** Questions about several recipients of which one fails, while the answers to the others are still on their way. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { SluiceError } from '../../../../src/errors.ts'
import type { Subject } from '../../../../src/ports.ts'
import { engines } from './open.ts'
import { openLimits } from './open-limits.ts'

const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }
const rules = [limit('one', '1/10s', { stream: 'all' })]
const requests = [ada, bob].map((subject) => ({ subject, id: '1', rules }))
const prints = requests.map((request) => ({ ...request, fingerprint: 'f', windowMs: 10_000 }))
/** Longer than a question and its release take, ms. */
const lateMs = 100

for (const engine of engines)
  describe(`limits of recipients on ${engine}`, needs(engine), () => {
    /** Asks for what is taken of ada late, and leaves it unanswered of bob. */
    function openLate() {
      const { redis, openState, now } = openLimits(engine)
      const state = openState({
        redis: {
          ...redis,
          async ask(script, keys, args, withinMs) {
            if (args[0] === 'print' || args[0] === 'reserve') {
              if (keys.subject.endsWith('bob'))
                throw new SluiceError('STATE_UNAVAILABLE', 'no answer in time')
              await sleep(lateMs)
            }
            return redis.ask(script, keys, args, withinMs)
          },
        },
      })
      return { state, other: openState(), now }
    }

    it('has taken every fingerprint that it takes when it tells that one of them failed', async () => {
      const { state, other } = openLate()
      await assert.rejects(Promise.resolve(state.holdFingerprints(prints)), { code: 'STATE_UNAVAILABLE' })
      await state.releaseFingerprints(prints)
      await sleep(2 * lateMs)
      assert.deepEqual(await other.holdFingerprints([{ ...prints[0]!, id: '2' }]), [true])
    })

    it('has taken every place that it takes when it tells that one of them failed', async () => {
      const { state, other, now } = openLate()
      await assert.rejects(Promise.resolve(state.reserve(requests)), { code: 'STATE_UNAVAILABLE' })
      await state.cancel(requests)
      await sleep(2 * lateMs)
      assert.equal((await other.reserve([{ ...requests[0]!, id: '2' }]))[0]!.at, now())
    })
  })
