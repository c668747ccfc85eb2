/**
 * So many recipients opt out at one gateway while both are given notifications for them. No call may be made for a recipient
 * after the answer to the PATCH.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { callsOf, inParallel, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { beatMs, now, type Proof, unlimited } from './proof.ts'

export const optOuts: Proof = {
  shows: 'recipients opt out at one of two gateways under load: no call after the answer to the PATCH',
  engines: ['postgres', 'redis'],
  small: { count: 300, clients: 24 },
  full: { count: 10_000, clients: 24 },
  async run({ cleanup, count, clients, progress }) {
    const fleet = await startFleet(cleanup, {
      name: 'proof-opt-outs',
      beatMs,
      policy: unlimited,
    })
    const obeyedFrom = new Map<string, number>()
    let posted = 0
    let refused = 0
    const post = async (at: number, id: string): Promise<void> => {
      const body = { recipient: { id }, category: 'marketing' }
      const answer = await fleet.post(at, { body }).catch(() => undefined)
      if (answer?.status === 202) posted += 1
      else refused += 1
    }
    /** Opts the recipient out; a PATCH whose answer is lost says nothing, and is repeated. */
    const optOut = async (n: number): Promise<void> => {
      const path = `/api/v1/recipients/p${n}`
      const body = { optOuts: [{ category: 'marketing' }] }
      for (let tries = 0; tries < 20; tries += 1) {
        const answer = await fleet.sites[n % 2]!.call('PATCH', path, body).catch(() => undefined)
        if (answer?.status === 200) {
          obeyedFrom.set(`p${n}`, now())
          return
        }
        await sleep(100)
      }
    }
    await inParallel(count, clients, async (n) => {
      const id = `p${n}`
      await Promise.all([0, 1].map((at) => post(at, id)))
      // These leave; of the next ones some leave and some are still on their way when the recipient opts out.
      await sleep(2_000 + ((n * 37) % 2_000))
      const posting = [0, 1, 0].map((at) => post(at, id))
      await sleep((n * 37) % 200)
      const patched = optOut(n)
      await post((n + 1) % 2, id)
      await patched
      await Promise.all(posting)
      await post(n % 2, id)
      progress(`${obeyedFrom.size} of ${count} opted out`)
    })
    await sleep(2_000)
    const calls = await callsOf(fleet)
    const late = calls.filter(
      ({ at, recipient }) => at > (obeyedFrom.get(recipient) ?? Number.POSITIVE_INFINITY),
    )
    const figures = {
      patches: count,
      answered200: obeyedFrom.size,
      posted,
      refused,
      calls: calls.length,
      late: late.length,
    }
    return { figures, isRight: late.length === 0 && obeyedFrom.size === count && calls.length > 0 }
  },
}
