/**
 * Holds several processes against what each may do: a process that was declared dead writes and sends nothing more, a
 * notification that a living process has delivered is sent by no other one, and what a process leaves behind is taken
 * over in time.
 */
import type { Notification } from '../../src/model.ts'
import type { Change } from '../../src/ports.ts'
import type { Watched } from './oracle.ts'
import type { Calm } from './oracle-calm.ts'
import { hasEnded, type WatchedRecord } from './oracle-record.ts'
import { second } from './settings.ts'
import type { SimFleetRecord } from './sim-fleet-record.ts'
import type { Call } from './sim-provider.ts'

export interface WatchedFleet {
  died(process: number): void
}

/** A right to send lasts so long at most, ms: what was begun before may be handed over until then. */
const rightMsMax = 250
/** A notification that a process leaves behind is on its way again within this, ms. */
const takeoverMsMax = 30 * second

const recipientOf = ({ tenant, to }: Pick<Notification, 'tenant' | 'to'>): string => `${tenant} ${to.id}`

export function watchFleet(
  { world, settings, client, service, record }: Watched,
  { rows }: WatchedRecord,
  calm: Calm,
  { onDeclaredDead, onRights }: Pick<SimFleetRecord, 'onDeclaredDead' | 'onRights'>,
): WatchedFleet {
  /** Instants at which processes were declared dead, and at which they have died. */
  const declared = new Map<number, number>()
  const died = new Map<number, number>()
  /** The last instant at which each notification was written or sent. */
  const touched = new Map<string, number>()
  const delivered = new Map<string, Call>()
  /** The last call to each recipient: others of the same recipient wait behind it, as its limits say. */
  const called = new Map<string, number>()

  onDeclaredDead((process) => {
    declared.set(process, world.now())
    expectTakeover()
  })

  onRights((process) => {
    if (declared.has(process))
      world.violate('11 fenced', `process ${process} was declared dead, and was given a right to send`)
  })

  record.observers.add(({ method, args, process = 0 }) => {
    if (method === 'commit' && declared.has(process))
      world.violate('11 fenced', `process ${process} was declared dead, and its ${method} was taken`)
    if (method !== 'commit') return
    const { accept = [], moves = [] } = args[0] as Change
    for (const { id } of [...accept, ...moves.map(({ after }) => after)]) touched.set(id, world.now())
  })

  service.observers.add((call, what) => {
    const { id } = call.message
    if (what === 'answered') {
      if (call.outcome === 'delivered') delivered.set(id, call)
      return
    }
    touched.set(id, world.now())
    called.set(recipientOf(call.message), world.now())
    const { process, handedAt } = call
    const deadAt = declared.get(process)
    if (deadAt !== undefined && handedAt > deadAt + rightMsMax)
      world.violate('11 fenced', `process ${process} was declared dead, and sent ${id}`)
    const before = delivered.get(id)
    if (before === undefined || before.process === process) return
    // Only the end of the process, before the settlement was on record, excuses another call.
    if (!died.has(before.process) && !declared.has(before.process))
      world.violate('9 double', `${id} was delivered by process ${before.process}, and sent by ${process}`)
  })

  /** Tests if calls of the channel went on from then until now, so that those that wait may stand behind others. */
  function isBusy(channel: string, since: number): boolean {
    const windowMs = Math.max(
      ...settings.accounts.flatMap(({ windows }) => windows.map((each) => each.windowMs)),
    )
    const calls = service.calls.filter(({ at, message }) => message.channel === channel && at >= since)
    return [since, ...calls.map(({ at }) => at), world.now()].every(
      (at, index, all) => index === 0 || at - all[index - 1]! <= windowMs + second,
    )
  }

  /** The instant of a time of day of UTC, on the day of the run. */
  const timeOf = (hours: string): number =>
    Date.parse(`${new Date(settings.start).toISOString().slice(0, 10)}T${hours}Z`)

  /** Tests if the recipient may have had quiet hours within the span: a notification that they hold up is not written until its turn. */
  function mayBeQuiet({ tenant, to, priority }: Notification, from: number, until: number): boolean {
    if (priority === 'critical') return false
    return client.exchanges.some(({ kind, caller, of, change }) => {
      if (kind !== 'preferences' || caller.tenant !== tenant || of !== to.id) return false
      const hours = change?.quietHours?.default
      return hours !== undefined && timeOf(hours.from) < until && timeOf(hours.to) > from
    })
  }

  /** Looks after a death whether something that was due then has been left alone since. */
  function expectTakeover(): void {
    const at = world.now()
    world.at(at + takeoverMsMax, () => {
      if (settings.faults.holds.length > 0 || !calm.isUndisturbed(at, world.now())) return
      if (!calm.isWithoutDeath(at + 1, world.now())) return
      for (const row of rows.values()) {
        const { id, status, dueAt } = row
        if (hasEnded(row) || status === 'dead' || status === 'digesting' || dueAt > at) continue
        if ((touched.get(id) ?? 0) >= at || (called.get(recipientOf(row)) ?? 0) >= at) continue
        if (mayBeQuiet(row, at, world.now()) || isBusy(row.channel, at)) continue
        world.violate('11 takeover', `${id} is ${status}, and nobody has sent it since a death 30 s ago`)
        return
      }
    })
  }

  return {
    died(process) {
      died.set(process, world.now())
      expectTakeover()
    },
  }
}
