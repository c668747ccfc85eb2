/**
 * Counts what is over under a Redis that fails: windows of recipients and of the account at the provider, and windows of
 * the acceptances of a tenant on record.
 */
import { callsOf, type TestFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { overfull } from '../../packages/gateway/test/guarantees/windows.ts'
import { doublesOf, query, windowsOver } from './proof.ts'

/** The limits of a fleet under a Redis that fails. */
export const limits = {
  recipient: { max: 3, windowMs: 2_000 },
  account: { max: 100, windowMs: 1_000 },
  tenant: { max: 60, windowMs: 2_000 },
  queueMax: 60,
  policy: {
    version: 1,
    limits: [{ name: 'few', for: 'any', max: ['3/2s'], over: 'delay' }],
    onStateLost: { default: 'hold', security: 'refuse' },
  },
  rate: ['100/s'],
  tenants: {
    limited: { rate: '60/2s', queue: 100_000 },
    bounded: { rate: '1/min', queue: 60 },
  },
}

/** The figures of what is over, from the provider and from the record at this address. */
export async function countOver(fleet: TestFleet, store: string) {
  const calls = await callsOf(fleet)
  // A notification counts for its tenant at its pass, or at its turn.
  const rows = await query(
    store,
    `SELECT n.tenant, l.kind IS NOT DISTINCT FROM 3 AS waits,
        coalesce(l.turned_at, o.turned_at, n.created_at)::float8 AS at
      FROM notification n LEFT JOIN live l USING (id) LEFT JOIN outcome o USING (id)
      WHERE n.tenant IN ('limited', 'bounded')`,
  )
  const passes = rows
    .filter(({ tenant, waits }) => tenant === 'limited' && !waits)
    .map(({ at }) => Number(at))
  const queued = rows.filter(({ tenant, waits }) => tenant === 'bounded' && waits).length
  return {
    calls: calls.length,
    doubles: doublesOf(calls),
    windowsOver: windowsOver(calls, limits.recipient),
    accountOver: overfull(
      calls.map(({ at }) => at),
      limits.account,
    ),
    passes: passes.length,
    tenantOver: overfull(passes, limits.tenant),
    queueOver: Math.max(0, queued - limits.queueMax),
  }
}

export const isNothingOver = (figures: Awaited<ReturnType<typeof countOver>>): boolean =>
  figures.windowsOver + figures.accountOver + figures.tenantOver + figures.queueOver === 0 &&
  figures.calls > 0 &&
  figures.passes > 0
