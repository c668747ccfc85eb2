/** A tenant's queue is filled over several gateways at once: exactly its bound is accepted, and other tenants are not refused. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '../../packages/gateway/test/child.ts'
import { inParallel, startFleet, type TestFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { type Proof, query, unlimited } from './proof.ts'

/** Posts under one key until it is answered: a busy machine may take longer than a client waits. */
async function untilAnswered(fleet: TestFleet, at: number, tenant: string, n: number): Promise<Answer> {
  const text = `Message ${n}`
  const body = { recipient: { id: `r${n}` }, content: { subject: text, text } }
  for (;;) {
    const answer = await fleet.post(at, { tenant, body, key: `message-${n}` }).catch(() => undefined)
    if (answer !== undefined && answer.status !== 409) return answer
    await sleep(100)
  }
}

export const queueBound: Proof = {
  shows: 'four gateways fill the queue of a tenant at once: no acceptance at or above its bound',
  engines: ['postgres', 'redis'],
  small: { count: 500, processes: 4 },
  full: { count: 10_000, processes: 4 },
  async run({ cleanup, count, processes, clients, progress }) {
    const name = 'proof_queue'
    const fleet = await startFleet(cleanup, {
      name,
      count: processes,
      tenants: { bounded: { rate: 'unlimited', modules: 'unlimited', queue: count } },
      policy: unlimited,
      // Longer than the run: with calls that time out the breaker opens, and what waits leaves the queue as dead letters.
      timeout: '1h',
    })
    // A call that is not answered counts in the queue.
    await fleet.sink.rules([{ match: 'POST', do: 'hang' }])
    const statuses = new Map<number, number>()
    let most = 0
    let isOver = false
    const watching = (async () => {
      for (; !isOver; await sleep(100)) {
        const [row] = await query(
          schemaUrl(name),
          "SELECT count(*)::int AS n FROM live WHERE tenant = 'bounded'",
        )
        most = Math.max(most, row!.n)
      }
    })()
    let otherRefused = 0
    let others = 0
    await inParallel(Math.ceil(count * 1.3), clients, async (n) => {
      const { status } = await untilAnswered(fleet, n % processes, 'bounded', n)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (n % 1_000 === 0) progress(`${n} posted`)
      if (n % 50 !== 0) return
      others += 1
      if ((await untilAnswered(fleet, n % processes, 'other', n)).status !== 202) otherRefused += 1
    })
    isOver = true
    await watching
    const [row] = await query(
      schemaUrl(name),
      "SELECT count(*)::int AS n FROM notification WHERE tenant = 'bounded'",
    )
    const accepted = statuses.get(202) ?? 0
    const refused = statuses.get(503) ?? 0
    const figures = {
      processes,
      bound: count,
      posted: Math.ceil(count * 1.3),
      accepted,
      refused,
      onRecord: row!.n,
      most,
      others,
      otherRefused,
    }
    const isRight =
      accepted === count &&
      figures.onRecord === count &&
      most <= count &&
      accepted + refused === figures.posted &&
      otherRefused === 0
    return { figures, isRight }
  },
}
