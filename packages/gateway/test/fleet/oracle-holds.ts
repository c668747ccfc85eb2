/**
 * Holds calls against what operators were told: from the answer to a hold on, nothing that it stops is handed to the
 * provider before its end, by no process, until the operator asks to end it.
 */
import { decidedAt, type Watched } from './oracle.ts'
import type { HoldPlan } from './settings.ts'
import type { Call } from './sim-provider.ts'

interface Force {
  readonly name: string
  readonly selection: HoldPlan['selection']
  readonly from: number
  readonly until: number
}

/** A restart may move the time line by this, ms. */
const slackMs = 25

function stops({ tenant, channel, category, account }: HoldPlan['selection'], call: Call): boolean {
  const { message } = call
  if (account !== undefined) return call.account === account && message.channel === channel
  return (
    (tenant === undefined || tenant === message.tenant) &&
    (channel === undefined || channel === message.channel) &&
    (category === undefined || category === message.category)
  )
}

export function watchHolds(watched: Watched): void {
  const { world, client, service } = watched
  let inForce: readonly Force[] = []

  client.observers.add(({ kind, of: name = '', plan, sentAt, response }) => {
    if (kind !== 'hold' || response?.heldMs === undefined) return
    const from = world.now()
    // A hold replaces that of its name; of two that are asked for at once either may be the later one.
    const others = inForce.filter((each) => each.name !== name || each.from > sentAt)
    const together = others.filter((each) => each.name === name).map((each) => each.until)
    const until = Math.min(from + response.heldMs - slackMs, ...together)
    const kept = others.map((each) => (each.name === name ? { ...each, until } : each))
    inForce = [...kept, { name, selection: plan!.selection, from, until }]
  })

  /** The earliest end of holds of this name that were asked for and are not answered: each may be the one in force. */
  const unansweredEnd = (name: string): number =>
    Math.min(
      ...client.exchanges
        .filter(({ kind, of, response }) => kind === 'hold' && of === name && response?.heldMs === undefined)
        .map(({ sentAt, plan }) => sentAt + plan!.forMs - slackMs),
    )

  const endAskedAt = (name: string): number =>
    client.exchanges.find(({ kind, of }) => kind === 'endHold' && of === name)?.sentAt ??
    Number.POSITIVE_INFINITY

  service.observers.add((call, what) => {
    if (what !== 'written') return
    const { message } = call
    const at = decidedAt(watched, call)
    const hold = inForce.find(
      ({ name, selection, from, until }) =>
        at > from && at < Math.min(until, endAskedAt(name), unansweredEnd(name)) && stops(selection, call),
    )
    if (hold !== undefined)
      world.violate('13 hold', `${message.id} was sent ${at - hold.from} ms after ${hold.name}`)
  })
}
