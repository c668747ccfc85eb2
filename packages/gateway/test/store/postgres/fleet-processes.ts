/** Processes of a fleet on a real PostgreSQL, without gateways: they join with short beats, and leave when a test is over. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import type { Clock } from '../../../src/ports.ts'
import type { PostgresFleet } from '../../../src/store/postgres/fleet/open-fleet.ts'
import { joinAt } from './database.ts'
import { type LossyProxy, startProxy } from './proxy.ts'

export const clock = createSystemClock()
/** Short beats, and long enough for a busy machine: a process is dead after 0.9 s. */
export const beatMs = 150

export async function until(condition: () => boolean | Promise<boolean>, forMs = 10_000): Promise<void> {
  const end = performance.now() + forMs
  while (!(await condition())) {
    assert.ok(performance.now() < end, `${condition} does not come true`)
    await sleep(10)
  }
}

/** Closes a process of the fleet as a gateway does; the store of one that was declared dead refuses its last words. */
export async function leave({ members, store }: PostgresFleet): Promise<void> {
  await members.close()
  await store.close().catch(() => {})
}

type Join = (url: string, more?: Parameters<typeof joinAt>[2], by?: Clock) => Promise<PostgresFleet>

/** Joins processes that leave when the test is over. */
export function joining(t: TestContext): Join {
  return async (url, more = {}, by = clock) => {
    const fleet = await joinAt(url, by, { beatMs, ...more })
    t.after(() => leave(fleet))
    return fleet
  }
}

export async function proxyTo(t: TestContext, url: string): Promise<LossyProxy> {
  const proxy = await startProxy(url)
  t.after(() => {
    proxy.thaw()
    setTimeout(proxy.close, 500)
  })
  return proxy
}
