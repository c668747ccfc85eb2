/** The suite of the port of accounts, in virtual time on a real server and a cluster. */
import { describe } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { exerciseAccounts } from '../../../../src/conformance/accounts.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

/** Registers it with random runs of these seeds: each takes 2 s of CPU on each engine, most of it for round trips. */
export function exerciseRedisAccounts(seeds: readonly number[]): void {
  // Side by side: each waits for its server most of the time.
  describe('accounts of several processes', { concurrency: engines.length }, () => {
    for (const engine of engines)
      describe(`on ${engine}`, needs(engine), () => {
        exerciseAccounts('accounts of several processes in Redis', (terms) => openAccountRig(engine, terms), {
          newsMs: 1_200,
          usedMin: 0.9,
          isShared: true,
          seeds,
        })
      })
  })
}
