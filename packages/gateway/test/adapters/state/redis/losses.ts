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

/** A busy machine gets this much longer, ms. */
const moreMsMax = 60_000

/**
 * Load and losses go on for so long, and on a busy machine until there were enough of them. Returns the function that is
 * true at their end.
 */
export function createEnd(ms: number, isEnough: () => boolean): () => boolean {
  const leastMs = performance.now() + ms
  return () => {
    const beyondMs = performance.now() - leastMs
    return beyondMs >= 0 && (isEnough() || beyondMs >= moreMsMax)
  }
}

export interface Losses {
  readonly random: ReturnType<typeof seededRandom>
  readonly lose: () => Promise<unknown>
  /** The least and the longest pause before each loss, milliseconds. */
  readonly pauseMs: readonly [number, number]
  readonly isOver: () => boolean
  readonly counts: { lost: number }
}

export async function loseAgainAndAgain({ random, lose, pauseMs, isOver, counts }: Losses): Promise<void> {
  while (!isOver()) {
    await sleep(random.between(...pauseMs))
    await lose()
    counts.lost += 1
  }
}
