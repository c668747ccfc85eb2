/**
 * Presence over all processes of a fleet. Each process knows its own connections and answers for them, so nothing of it is
 * stored: a process that dies takes its connections with it, and the recipients connect elsewhere. A notification goes to
 * the connections of every process. A process that does not answer counts as one without connections; offline-recheck.ts
 * asks it again.
 */
import type { JsonObject } from '../../model.ts'
import type { Peers } from '../../ports/fleet.ts'
import type { Delivery, Presence } from '../../ports.ts'
import type { RecipientName, WebSocketHub } from './hub.ts'

export interface FleetPresence extends Presence {
  /** Tells for each recipient if a connection is open anywhere; `isWhole` is false where a process did not answer. */
  look(
    recipients: readonly RecipientName[],
  ): Promise<{ readonly connected: readonly boolean[]; readonly isWhole: boolean }>
}

type AskedNames = readonly (readonly [tenant: string, recipient: string])[]

interface AskedDelivery extends RecipientName {
  readonly data: JsonObject
}

/**
 * A process that does not say within this time if a connection took a notification has died, or its client does not
 * read, ms. The notification is sent again then.
 */
const deliveryMs = 5_000

export function createFleetPresence({
  hub,
  peers,
}: {
  readonly hub: Pick<WebSocketHub, 'areConnected' | 'deliver' | 'onConnect'>
  readonly peers: Pick<Peers, 'ask' | 'answer'>
}): FleetPresence {
  peers.answer('connected', (asked) =>
    hub
      .areConnected((asked as AskedNames).map(([tenant, recipient]) => ({ tenant, recipient })))
      .flatMap((isConnected, index) => (isConnected ? [index] : [])),
  )
  // It answers before the process that asks gives up.
  peers.answer('deliver', (asked) => {
    const { tenant, recipient, data } = asked as AskedDelivery
    return hub.deliver(tenant, recipient, data, AbortSignal.timeout(deliveryMs - 500))
  })

  async function look(recipients: readonly RecipientName[]) {
    const here = hub.areConnected(recipients)
    const missing = recipients.filter((_, index) => !here[index])
    if (missing.length === 0) return { connected: recipients.map(() => true), isWhole: true }
    const names: AskedNames = missing.map(({ tenant, recipient }) => [tenant, recipient])
    const { answers, silent } = await peers.ask('connected', names)
    const elsewhere = new Set<RecipientName>()
    for (const indexes of answers.values())
      for (const index of indexes as readonly number[]) elsewhere.add(missing[index]!)
    // A recipient may have connected here meanwhile.
    const connected = hub
      .areConnected(recipients)
      .map((isHere, index) => isHere || elsewhere.has(recipients[index]!))
    return { connected, isWhole: silent.length === 0 }
  }

  return {
    look,
    onConnect: hub.onConnect,
    areConnected(recipients) {
      const here = hub.areConnected(recipients)
      if (here.every(Boolean)) return here
      return look(recipients).then(({ connected }) => connected)
    },
    async deliver(tenant, recipient, data, signal) {
      const asked: AskedDelivery = { tenant, recipient, data }
      const elsewhere = peers
        .ask('deliver', asked, { withinMs: deliveryMs, isEnough: (answer) => answer === 'written' })
        .then(({ answers, silent }): Delivery => {
          const outcomes = [...answers.values()]
          if (outcomes.includes('written')) return 'written'
          return silent.length > 0 || outcomes.includes('unread') ? 'unread' : 'absent'
        })
      return firstWritten([hub.deliver(tenant, recipient, data, signal), elsewhere], signal)
    },
  }
}

/** Resolves with the first that was written, else when all are there, or at the signal. */
function firstWritten(works: readonly Promise<Delivery>[], signal: AbortSignal): Promise<Delivery> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve('unread'), { once: true })
    for (const work of works) void work.then((outcome) => outcome === 'written' && resolve(outcome))
    void Promise.all(works).then((outcomes) => resolve(outcomes.includes('unread') ? 'unread' : 'absent'))
  })
}
