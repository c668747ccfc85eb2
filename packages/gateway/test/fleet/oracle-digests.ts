/**
 * Finds digests that were overtaken by more than a second. One that its limits hold up has its turn among those that wait: nothing that came to the
 * same recipient, channel and category behind it leaves before it. It looks only where nothing disturbs the run.
 */
import type { Digest } from '../../src/model.ts'
import type { Change } from '../../src/ports.ts'
import type { Exchange } from './client.ts'
import type { Watched } from './oracle.ts'
import type { Calm } from './oracle-calm.ts'
import { lateMsMax } from './oracle-lateness.ts'
import type { WatchedRecord } from './oracle-record.ts'
import { second } from './settings.ts'
import type { Call } from './sim-provider.ts'

/** One that may leave within this time is not planned around: others may leave first. ms */
const nearMs = second

export interface WatchedDigests {
  /** Looks at all calls, when the record is complete. */
  check(told: ReadonlyMap<string, Exchange>): void
}

/** A digest that its limits held up, and the instants between which it waited for them. */
interface HeldDigest {
  readonly digest: Digest
  readonly from: number
  readonly to: number
}

export function watchDigests(
  { world, settings, client, service, record }: Watched,
  { rows }: WatchedRecord,
  calm: Calm,
  slackMs = lateMsMax,
): WatchedDigests {
  const putOffAt = new Map<string, number>()
  const held: HeldDigest[] = []
  record.observers.add(({ method, args }) => {
    if (method !== 'commit') return
    const { accept = [], digests = [] } = args[0] as Change
    const now = world.now()
    for (const { kind, digest } of digests) {
      const from = putOffAt.get(digest.id)
      if (kind === 'postpone' && accept.length === 0) {
        if (from === undefined && digest.closesAt > now) putOffAt.set(digest.id, now)
      } else if (kind !== 'open' && from !== undefined) {
        putOffAt.delete(digest.id)
        held.push({ digest, from, to: now })
      }
    }
  })

  const hasPreferences = ({ tenant, recipient }: Digest): boolean =>
    client.exchanges.some(
      ({ kind, caller, of }) =>
        kind !== 'post' && kind !== 'batch' && caller.tenant === tenant && of === recipient,
    )

  function look({ digest, from, to }: HeldDigest, told: ReadonlyMap<string, Exchange>): void {
    if (
      hasPreferences(digest) ||
      !calm.isUndisturbed(from - second, to) ||
      !calm.isWithoutDeath(from - second, to)
    )
      return
    const cameBehind = ({ message, at }: Call): boolean => {
      const { id, tenant, channel, category, priority } = message
      const sentAt = told.get(id)?.sentAt
      return (
        sentAt !== undefined &&
        sentAt > from + slackMs &&
        at < to - nearMs - slackMs &&
        tenant === digest.tenant &&
        message.to.id === digest.recipient &&
        channel === digest.channel &&
        category === digest.category &&
        priority !== 'critical' &&
        rows.get(id)?.actors === undefined
      )
    }
    const first = service.calls.find(cameBehind)
    if (first !== undefined)
      world.violate(
        '15 digest',
        `${first.message.id} left ${to - first.at} ms before the digest ${digest.id}, which its limits held up before that came`,
      )
  }

  return {
    check(told) {
      const countsByAuthor = settings.limits.some(({ per }) => per.includes('actor'))
      if (countsByAuthor || settings.changedLimits !== undefined || settings.faults.holds.length > 0) return
      for (const each of held) look(each, told)
    },
  }
}
