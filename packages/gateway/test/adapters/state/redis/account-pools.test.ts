/** Pools of two processes that call one account: the probe of its breaker, and who makes it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { Lease } from '../../../../src/delivery/pools/lease.ts'
import { Pool } from '../../../../src/delivery/pools/pool.ts'
import { broken, createScripted, delivered } from '../../../delivery/scripted.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

for (const engine of engines)
  describe(`pools on ${engine}`, needs(engine), () => {
    it('make the probe that another process has given back, though a message came while that had it', async () => {
      const terms = { windows: [], concurrencyMax: 10, breaker: { inARow: 3, coolDownMs: 1_000 } }
      const rig = openAccountRig(engine, terms)
      function open() {
        const state = rig.join()
        const { windows, concurrencyMax } = terms
        const pool = new Pool({
          channel: 'email',
          provider: createScripted(() => delivered).provider,
          accounts: [{ account: state.account, windows, concurrencyMax, rate: '' }],
          marginMs: 0,
          now: rig.now(),
          stateOf: () => state,
        })
        let at: number | undefined
        let isWaiting = false
        const arm = (): void => {
          if (isWaiting) at = pool.freeAt(rig.now())
        }
        pool.onNews(arm)
        /** Waits for a lease as a worker does: at the instant at which the pool says that it is free. */
        async function lease(forMs: number): Promise<Lease | undefined> {
          at = rig.now()
          isWaiting = true
          for (const until = rig.now() + forMs; rig.now() < until; await rig.pass(1)) {
            if (at === undefined || rig.now() < at) continue
            const [found] = pool.lease(rig.now(), 1)
            isWaiting = found === undefined
            if (found !== undefined) return found
            arm()
          }
          return undefined
        }
        return { pool, state, lease }
      }
      const [first, second] = [open(), open()]
      for (let calls = 0; calls < 3; calls += 1) {
        const lease = await first.lease(2_000)
        lease!.judge(rig.now(), broken, 1)
        lease!.end()
      }
      await rig.pass(500)
      const probe = await first.lease(2_000)
      assert.ok(probe?.probe === true && second.state.isBroken)
      // It waits for the other's verdict.
      assert.equal(await second.lease(500), undefined)
      probe.undo()
      const made = await second.lease(1_000)
      assert.ok(made?.probe, 'nobody makes the probe')
    })
  })
