/** A waiting notification moves to an earlier instant in Redis, and an answer is lost. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { SluiceError } from '../../../../src/errors.ts'
import type { Subject } from '../../../../src/ports.ts'
import { engines } from './open.ts'
import { openLimits } from './open-limits.ts'

const one = [limit('one', '1/10s', { stream: 'all' })]
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const request = (id: string) => ({ subject: ada, id, rules: one })

for (const engine of engines)
  describe(`an advance on ${engine}`, needs(engine), () => {
    it('holds newcomers up no longer where the last step of an advance fails', async () => {
      const { redis, openState, now } = openLimits(engine)
      const state = openState({
        redis: {
          ...redis,
          ask: (script, key, args, withinMs) =>
            args.includes('follow')
              ? Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'The answer is lost.'))
              : redis.ask(script, key, args, withinMs),
        },
      })
      const bob = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }
      const inBoth = (id: string) => [request(id), { subject: bob, id, rules: [] }]
      const start = now()
      await state.fire([request('1')])
      for (const id of ['2', '3']) await state.reserve(inBoth(id))
      assert.deepEqual(await state.cancel([{ subject: ada, id: '1' }]), [ada])
      await assert.rejects(state.advance(inBoth('2')), { code: 'STATE_UNAVAILABLE' })
      await state.resume([ada])
      const newcomer = await Promise.race([
        state.reserve([request('4')]),
        sleep(2_000, undefined, { ref: false }),
      ])
      assert.ok(newcomer !== undefined && newcomer[0]!.at > start, 'the newcomer waits for ever')
    })
  })
