/**
 * Bounds how many drafts are decided at once where their limits stand on a server. It works one question after the other, so
 * that the questions of all requests together would be answered when most of them are late. Late ones are accepted undecided,
 * which writes each of them twice and asks again: a gateway that is offered more than it can do would do less.
 */
import type { Clock } from '../ports.ts'
import type { AdmitRequest } from '../stages.ts'

export interface DecisionWindow {
  /**
   * Decides the drafts of a request when its turn has come: tenants take turns of about 64 drafts. At once where one is
   * critical, and where a request is decided again that had its turn and met a concurrent change.
   */
  run<Decided>(request: AdmitRequest, isRetry: boolean, decide: () => Promise<Decided>): Promise<Decided>
}

interface Decision {
  readonly drafts: number
  /** An instant of `Clock.monotonic`. */
  readonly begunAt: number
}

interface Waiting {
  readonly drafts: number
  readonly begin: (decision: Decision) => void
}

/**
 * A request begins while fewer drafts than that are being decided. Two gateways that were offered 64 batches of a hundred at once,
 * with both engines on two cores, settled 1,620 to 2,750 messages a second with it, 1,470 to 2,080 with 128, and 1,090 to 1,400
 * without a bound, where half of them were accepted undecided first (bench/bounds.md).
 */
const draftsMax = 64
/**
 * After this time a decision leaves its place to others, ms: it waits for something else than its turn at the server, as for a
 * recipient who is held up. With 100 ms decisions left their places while the machine was busy, and a third were undecided.
 */
const placeMsMax = 300

export function createDecisionWindow(clock: Pick<Clock, 'now' | 'monotonic' | 'at'>): DecisionWindow {
  /** In the order in which they have begun. */
  const open = new Set<Decision>()
  let drafts = 0
  /**
   * Requests that wait, by tenant in the order of their turns: as many as are in progress, of clients (tenant-bulkhead.ts) and
   * of intakes (intake/window.ts).
   */
  const queues = new Map<string, Waiting[]>()
  /** Drafts that the tenant has begun in its turn, the first one. */
  let turnDrafts = 0
  let disarm: (() => void) | undefined

  function begin(count: number): Decision {
    const decision: Decision = { drafts: count, begunAt: clock.monotonic() }
    open.add(decision)
    drafts += count
    return decision
  }

  function end(decision: Decision): void {
    if (open.delete(decision)) drafts -= decision.drafts
  }

  function beginNext(): void {
    while (drafts < draftsMax) {
      const [turn] = queues
      if (turn === undefined) break
      const [tenant, queue] = turn
      const next = queue.shift()!
      turnDrafts += next.drafts
      // To the end of the turns: by drafts, or one with single requests would get a hundredth of one with batches.
      if (queue.length === 0 || turnDrafts >= draftsMax) {
        turnDrafts = 0
        queues.delete(tenant)
        if (queue.length > 0) queues.set(tenant, queue)
      }
      next.begin(begin(next.drafts))
    }
    watch()
  }

  /** Watches the oldest decision while others wait. */
  function watch(): void {
    if (queues.size === 0) {
      disarm?.()
      disarm = undefined
      return
    }
    if (disarm !== undefined) return
    const [oldest] = open
    disarm = clock.at(clock.now() + placeMsMax - (clock.monotonic() - oldest!.begunAt), () => {
      disarm = undefined
      for (const decision of open) {
        if (clock.monotonic() - decision.begunAt < placeMsMax) break
        end(decision)
      }
      beginNext()
    })
  }

  function wait(tenant: string, count: number): Promise<Decision> {
    return new Promise((resolve) => {
      const waiting = { drafts: count, begin: resolve }
      const queue = queues.get(tenant)
      if (queue === undefined) queues.set(tenant, [waiting])
      else queue.push(waiting)
      watch()
    })
  }

  return {
    async run(request, isRetry, decide) {
      // It takes no place: others would wait for as long as critical ones come.
      if (request.drafts.some(({ priority }) => priority === 'critical')) return decide()
      const { length } = request.drafts
      const decision =
        isRetry || drafts < draftsMax ? begin(length) : await wait(request.caller.tenant, length)
      try {
        return await decide()
      } finally {
        end(decision)
        beginNext()
      }
    },
  }
}
