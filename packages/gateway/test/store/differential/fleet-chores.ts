/** Random chores by several processes: erasures, retention, and looks at what became of a change. */
import { isFinal } from '../../../src/model.ts'
import { all, sorted } from './everything.ts'
import { people, tenants } from './fleet-overview.ts'
import type { FleetWorld } from './fleet-world.ts'

export function choresOf(world: FleetWorld): readonly (() => Promise<unknown>)[] {
  const { rows, tried, now, living, compare, below, pick } = world

  /** Erases a recipient: one process begins it, and another one may go on with it. */
  async function erase(): Promise<void> {
    if (below(3) > 0) return
    const [tenant, recipient] = [pick(tenants), pick(people)]
    if (below(4) > 0)
      await compare('begin erasure', living(), (store) => store.beginErasure(tenant, recipient))
    await compare(
      'erase',
      living(),
      (store) => store.erase(tenant, recipient),
      (result) => (result.done ? 'done' : [...result.open].sort()),
    )
    for (const [id, row] of rows) {
      const stored = await living().model.notification(row.tenant, id)
      if (stored !== undefined && isFinal(stored.status)) rows.set(id, stored)
    }
  }

  async function prune(): Promise<void> {
    if (below(5) > 0) return
    const before = { answers: now() - 100, notifications: now() - 100 - below(60) }
    await compare(
      'prune',
      living(),
      (store) => store.prune(before),
      (pruned) => pruned.rows,
    )
    for (const [id, row] of rows)
      if ((await living().model.notification(row.tenant, id)) === undefined) rows.delete(id)
  }

  async function lookUp(): Promise<void> {
    const change = tried.findLast(() => below(4) === 0)
    // A hold that was put in force a second time counts as the same one.
    if (change === undefined || change.holds !== undefined) return
    await compare('is applied', living(), (store) => store.isApplied(change))
  }

  const ended = () =>
    compare(
      'ended',
      living(),
      (store) => store.endedSince!(now() - 30, all),
      // One that ended with its acceptance held nothing.
      (list) => sorted(list.filter(({ timeline }) => timeline.length > 2).map(({ id }) => id)),
    )

  return [erase, prune, lookUp, ended]
}
