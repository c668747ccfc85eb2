/**
 * Finds notifications and digests that were overtaken by more than a second. What its limits hold up has its turn among those
 * that wait: nothing that came to the same recipient, channel and category behind it leaves before it. It looks only where nothing
 * disturbs the run.
 */
import type { Change } from '../../src/ports.ts'
import type { Exchange } from './client.ts'
import type { Watched } from './oracle.ts'
import type { Calm } from './oracle-calm.ts'
import { areIdle, lateMsMax } from './oracle-lateness.ts'
import type { WatchedRecord } from './oracle-record.ts'
import { second } from './settings.ts'
import type { Call } from './sim-provider.ts'

/** One that may leave within this time is not planned around: others may leave first. ms */
const nearMs = second

export interface WatchedOvertaking {
  /** Looks at all calls, when the record is complete. */
  check(told: ReadonlyMap<string, Exchange>): void
}

/** A notification or a digest, and the instants between which it waited for its limits. */
interface Waited {
  readonly name: string
  readonly tenant: string
  readonly recipient: string
  readonly channel: string
  readonly category: string
  readonly actor?: string | undefined
  readonly from: number
  readonly to: number
  /** So many may leave before it: one that is refused by a moment is not planned again, and takes its next place beside others. */
  readonly spared: number
}

export function watchOvertaking(
  { world, settings, client, service, record }: Watched,
  { rows }: WatchedRecord,
  calm: Calm,
  slackMs = lateMsMax,
): WatchedOvertaking {
  const countsByAuthor = settings.limits.some(({ per }) => per.includes('actor'))
  const putOffAt = new Map<string, number>()
  const digests: Waited[] = []
  record.observers.add(({ method, args }) => {
    if (method !== 'commit') return
    const { accept = [], digests: writes = [] } = args[0] as Change
    const now = world.now()
    for (const { kind, digest } of writes) {
      const from = putOffAt.get(digest.id)
      if (kind === 'postpone' && accept.length === 0) {
        if (from === undefined && digest.closesAt > now) putOffAt.set(digest.id, now)
      } else if (kind !== 'open' && from !== undefined) {
        putOffAt.delete(digest.id)
        digests.push({ ...digest, name: `the digest ${digest.id}`, from, to: now, spared: 0 })
      }
    }
  })

  const hasPreferences = ({ tenant, recipient }: Waited): boolean =>
    client.exchanges.some(
      ({ kind, caller, of }) =>
        kind !== 'post' && kind !== 'batch' && caller.tenant === tenant && of === recipient,
    )

  /** A notification that left with its first call, and waited since it was accepted, or since its `sendAt`. */
  function waited({ message, at: to }: Call, told: ReadonlyMap<string, Exchange>): Waited | undefined {
    const { id, tenant, channel, category, attempt } = message
    const [row, answeredAt] = [rows.get(id), told.get(id)?.answeredAt]
    if (row === undefined || answeredAt === undefined || attempt !== 1 || row.actors !== undefined)
      return undefined
    if (row.job !== undefined || row.requestedChannel !== undefined) return undefined
    if (row.timeline.some(({ status }) => status === 'digesting' || status === 'dead')) return undefined
    // Each gateway decides its own in their order when the server of the limits answers again.
    if (row.timeline.some(({ reason }) => reason === 'state_unavailable')) return undefined
    const from = Math.max(answeredAt, row.sendAt ?? 0, row.turnedAt ?? 0)
    return {
      name: id,
      tenant,
      recipient: message.to.id,
      channel,
      category,
      actor: row.actor,
      from,
      to,
      spared: 1,
    }
  }

  function look(one: Waited, told: ReadonlyMap<string, Exchange>): void {
    const { from, to } = one
    if (to - from < nearMs || hasPreferences(one)) return
    if (!calm.isUndisturbed(from - second, to) || !calm.isWithoutDeath(from - second, to)) return
    const cameBehind = ({ message, at }: Call): boolean => {
      const { id, tenant, channel, category, priority } = message
      const sentAt = told.get(id)?.sentAt
      return (
        sentAt !== undefined &&
        sentAt > from + slackMs &&
        at < to - nearMs - slackMs &&
        tenant === one.tenant &&
        message.to.id === one.recipient &&
        channel === one.channel &&
        category === one.category &&
        (!countsByAuthor || rows.get(id)?.actor === one.actor) &&
        priority !== 'critical' &&
        rows.get(id)?.actors === undefined
      )
    }
    const [first, ...more] = service.calls.filter(cameBehind)
    if (first === undefined || more.length < one.spared) return
    // Accounts may hold it up, too, and serve by priority.
    if (areIdle({ settings, service }, first.at - nearMs, first.at))
      world.violate(
        '15 overtaken',
        `${first.message.id} left ${to - first.at} ms before ${one.name}, which its limits held up before that came`,
      )
  }

  return {
    check(told) {
      if (settings.changedLimits !== undefined || settings.faults.holds.length > 0) return
      if (!countsByAuthor) for (const each of digests) look(each, told)
      for (const call of service.calls) {
        const each = waited(call, told)
        if (each !== undefined) look(each, told)
      }
    },
  }
}
