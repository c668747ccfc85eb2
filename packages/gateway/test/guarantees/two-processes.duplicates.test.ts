/** Two gateways over one record and one place of the limits: fingerprints of what a dead one goes on to decide. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { second } from '../harness.ts'
import { twoProcesses } from './two-processes.ts'

test('a dead process frees no fingerprint of a notification that another one has accepted meanwhile', async () => {
  let isAway = false
  let goOn = (): void => {}
  const going = new Promise<void>((resolve) => {
    goOn = resolve
  })
  let isStopped = false
  const { clock, a, b, declareDead } = await twoProcesses({
    sharesLimits: true,
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['1/10s'], over: 'drop' }],
      deduplication: { window: '1h' },
    },
    wrapShared: (limits, id) =>
      id === 'b'
        ? limits
        : {
            ...limits,
            holdFingerprints: (prints) =>
              isAway
                ? Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'Away.'))
                : limits.holdFingerprints(prints),
            // It stands still behind the answer of the limits.
            async reserve(requests) {
              const answers = await limits.reserve(requests)
              isStopped = true
              await going
              return answers
            },
            // It ends for good behind what it releases.
            async releaseFingerprints(prints) {
              await limits.releaseFingerprints(prints)
              if (isStopped) await new Promise<never>(() => {})
            },
          },
  })
  await b.post()
  await clock.runUntil(clock.now() + second)
  const content = { subject: 'News', text: 'News' }
  isAway = true
  const { id, decision } = await a.post({ content })
  assert.equal(decision.reason, 'state_unavailable')
  isAway = false
  await clock.runUntil(clock.now() + second)
  assert.ok(isStopped, 'its limits have refused it')
  await clock.runUntil(clock.now() + 15 * second)
  declareDead('a')
  await clock.runUntil(clock.now() + 2 * second)
  assert.equal((await b.gateway.store.notification('default', id))?.status, 'delivered')
  goOn()
  await clock.runUntil(clock.now() + 15 * second)
  assert.equal((await b.post({ content })).decision.reason, 'duplicate')
  await b.stop()
})
