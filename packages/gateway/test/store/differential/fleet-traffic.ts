/** The random notifications, moves and digests of a sequence of several processes. */
import { epoch, inThrottleQueue, settled, someNotification } from '../../../src/conformance/store/sample.ts'
import { advance, type Digest, type Move, type Notification } from '../../../src/model.ts'
import { people, tenants } from './fleet-overview.ts'

export const channels = ['email', 'sms'] as const
export const texts = ['', '\\u0000', 'a\nb\tc', '"\\', '😀 ', '\u2028', '%s $1 {}', 'null']
/** Ids that sort by their bytes, and else in another order. */
const prefixes = ['0a', '0A', '0Z', '0z', '0_', '0-']

export interface TrafficOptions {
  readonly chance: () => number
  readonly now: () => number
  /** Digests of the sequence so far; each new one is added. */
  readonly digests: Digest[]
}

export function createTraffic({ chance, now, digests }: TrafficOptions) {
  const below = (count: number): number => Math.floor(chance() * count)
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!
  let made = 0
  const newName = (): string => {
    made += 1
    return `${pick(prefixes)}${String(made).padStart(6, '0')}`
  }

  function fresh(patch: Partial<Notification> = {}): Notification {
    const at = now()
    const text = below(200) === 0 ? `${pick(texts)}é`.repeat(2 ** 18) : pick(texts)
    const { content: _, ...bare } = someNotification({
      id: newName(),
      createdAt: at,
      dueAt: pick([at, at + below(40), epoch, 0, Number.MAX_SAFE_INTEGER]),
      tenant: pick(tenants),
      to: { id: pick(people), email: 'a@example.com' },
      channel: pick(channels),
      category: pick(['product', 'news', '{"a":1}', 'é,é']),
      priority: pick(['critical', 'high', 'normal', 'low']),
      status: pick(['queued', 'queued', 'scheduled', 'scheduled', 'suppressed']),
      bytes: pick([0, 1, 2 ** 20, below(100)]),
      ...(below(5) === 0 ? { actor: pick(people) } : {}),
    })
    const rendered = { template: pick(['x', 'y']) }
    const content = { text, subject: pick(texts) }
    return { ...bare, ...(below(4) === 0 ? rendered : { content }), ...patch }
  }

  /** A notification that a module's limit delays. */
  function waitsForLimit(): Notification {
    const { status: _, dueAt: _due, decision: _decision, timeline: _timeline, ...rest } = fresh()
    return inThrottleQueue(rest)
  }

  function moveOf(before: Notification): Move {
    const at = now()
    switch (below(8)) {
      case 0:
        return advance(before, [{ at, status: 'scheduled', reason: 'retry', detail: pick(texts) }], {
          dueAt: pick([before.dueAt, before.dueAt + below(30), at, at + 20]),
          attempts: before.attempts + below(2),
        })
      case 1:
        return advance(before, [{ at, status: 'cancelled' }])
      case 2:
        return before.status === 'dead'
          ? advance(before, [{ at, status: 'queued' }])
          : advance(before, [{ at, status: 'dead', reason: pick(['shed', 'poison', 'pool_blocked']) }])
      case 3:
        return advance(before, [{ at, status: 'queued' }], { turnedAt: at })
      case 4: {
        const { decision } = before
        return advance(before, [{ at, status: 'scheduled' }], {
          decision: { ...decision, reason: pick(['quiet_hours', 'tenant_limit']), policyVersion: 'p2' },
        })
      }
      case 5:
        return before.status === 'queued' ? settled(before, at) : advance(before, [{ at, status: 'expired' }])
      default:
        return before.status === 'queued'
          ? settled(before, at)
          : advance(before, [{ at, status: 'suppressed', reason: 'opted_out' }])
    }
  }

  function digestFor(tenant: string, recipient: string): Digest {
    const known = digests.findLast((each) => each.tenant === tenant && each.recipient === recipient)
    if (known !== undefined && below(6) > 0) return { ...known, closesAt: known.closesAt - below(3) }
    const of = { tenant, recipient, channel: 'email', category: 'activity', name: 'daily' } as const
    const id = newName()
    const digest = { id, ...of, openedAt: now(), closesAt: now() + below(60) }
    digests.push(digest)
    return digest
  }

  return { below, pick, fresh, waitsForLimit, moveOf, digestFor, newName }
}
