/** Ways to make Redis lose what it holds, again and again, for tests of several processes. */
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { seededRandom } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'

/** Connects to a server that will be away now and then. */
export function connect(t: TestContext, url: string): Redis {
  const admin = new Redis(url, { retryStrategy: () => 50 })
  admin.on('error', () => {})
  t.after(() => admin.disconnect())
  return admin
}

/** Makes a master a replica of nobody that answers, and a master again: its role changes, its values stay. */
export async function demote(admin: Redis): Promise<void> {
  await admin.replicaof('127.0.0.1', 1)
  await sleep(5)
  await admin.replicaof('NO', 'ONE')
}

export interface Losses {
  readonly random: ReturnType<typeof seededRandom>
  readonly lose: () => Promise<unknown>
  /** The least and the longest pause before each loss, milliseconds. */
  readonly pauseMs: readonly [number, number]
  /** By `performance.now()`. */
  readonly endsMs: number
  readonly counts: { lost: number }
}

export async function loseAgainAndAgain({ random, lose, pauseMs, endsMs, counts }: Losses): Promise<void> {
  while (performance.now() < endsMs) {
    await sleep(random.between(...pauseMs))
    await lose()
    counts.lost += 1
  }
}
