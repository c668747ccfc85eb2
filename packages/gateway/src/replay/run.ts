/**
 * Replays recorded traffic under a policy: the whole gateway on a virtual clock, over a store in memory that begins with
 * what really left before, and a provider that carries everything at once. The limits of tenants and modules stand in
 * the configuration, not in the policy: a request that waited for them is decided at the instant of its turn.
 */
import { createGateway, type Gateway, virtualParts } from '../gateway.ts'
import { channels } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Provider, SendResult, Templates } from '../ports.ts'
import { seededChance } from '../simulation/chance.ts'
import { createVirtualClock, type VirtualClock } from '../simulation/clock.ts'
import { unlimitedConfig } from '../simulation/unlimited-config.ts'
import { type Fate, replayedFate } from './fate.ts'
import { draftOf, seedRecord } from './seed.ts'
import type { Traffic, TrafficLine } from './traffic.ts'

export interface ReplayOptions {
  readonly traffic: Traffic
  readonly policy: Policy
  /** Hears the share of the period that has passed, from 0 to 1, and holds up the replay until it resolves. */
  readonly onProgress?: (share: number) => void | Promise<void>
}

/** A message that arrived: a notification, or a digest of several. */
export interface Arrival {
  readonly tenant: string
  readonly recipient: string
  readonly category: string
  /** Epoch ms. */
  readonly at: number
}

export interface Replayed {
  /** The fates of the requests, in the order of `requestsOf`; undefined where one was not decided. */
  readonly fates: readonly (Fate | undefined)[]
  readonly arrivals: readonly Arrival[]
}

const dayMs = 86_400_000
/** A notification that waits at the end of the period is followed so much longer at most: a delay beyond it is a suppression. */
const afterMs = 8 * dayMs
/** Requests between two reports of progress. */
const progressEvery = 500

/** The requests of the period, in the order of time. Those that stood in a throttle queue to the end have no decision. */
export function requestsOf({ lines }: Traffic): readonly TrafficLine[] {
  const requests = lines.filter(
    ({ warmUp, isDigest, state, reason }) =>
      warmUp !== true &&
      isDigest !== true &&
      !(state === 'scheduled' && (reason === 'tenant_limit' || reason === 'module_limit')),
  )
  // Instants are ISO texts in UTC: they sort as they are.
  return requests.sort((a, b) => compare(a.passedAt ?? a.at, b.passedAt ?? b.at) || compare(a.id, b.id))
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

interface Step {
  readonly at: number
  readonly lines: readonly TrafficLine[]
  readonly cancels?: TrafficLine
}

export async function replay({ traffic, policy, onProgress }: ReplayOptions): Promise<Replayed> {
  const { header, lines } = traffic
  const from = Date.parse(header.from)
  const to = Date.parse(header.to)
  const requests = requestsOf(traffic)
  const indexes = new Map(requests.map((line, index) => [`${line.tenant}\n${line.id}`, index]))
  const clock = createVirtualClock(from)
  const { random, store } = virtualParts(seededChance(1))
  /** The ids of the requests that are posted now, then that of the digest that the record says one of them was in. */
  const posting: string[] = []
  const opened = new Set<string>()
  function nextId(now: number): string {
    const id = posting.shift()
    if (id === undefined) return random!.id(now)
    opened.add(id)
    return id
  }
  await seedRecord({ store: store!, policy, lines, from })
  const gateway = await createGateway(unlimitedConfig({ file: '', builtIn: false, compiled: policy }), {
    clock,
    store: store!,
    random: { next: random!.next, id: nextId },
    providers: [idealProvider],
    templates: wordless,
  })
  const fates: (Fate | undefined)[] = new Array(requests.length).fill(undefined)
  const arrivals: Arrival[] = []
  const leftOfDigest = new Map<string, number>()
  gateway.ledger.subscribe(({ notification }) => {
    const { tenant, id, to: recipient, category, firedAt, status, actors } = notification
    if (status === 'delivered') {
      arrivals.push({ tenant, recipient: recipient.id, category, at: firedAt! })
      if (actors !== undefined) leftOfDigest.set(id, firedAt!)
    }
    const index = indexes.get(`${tenant}\n${id}`)
    if (index !== undefined) fates[index] = replayedFate(requests[index]!, notification)
  })
  await gateway.startStages()
  let done = 0
  for (const { at, lines: posted, cancels } of stepsOf(lines, requests)) {
    await clock.runUntil(at)
    if (cancels === undefined) {
      posting.push(...posted.map(({ id }) => id))
      const digest = posted[0]?.digest
      // A digest that this request opens gets the recorded id, from which its offset after quiet hours follows.
      if (digest !== undefined && !opened.has(digest)) posting.push(digest)
      await settled(clock, post(gateway, posted))
      posting.length = 0
    }
    // It may have left, or been dropped, under this policy.
    else await settled(clock, gateway.gate.cancel(cancels.tenant, cancels.id)).catch(() => undefined)
    done += 1
    if (done % progressEvery === 0) await onProgress?.((at - from) / (to - from))
  }
  await clock.runUntil(Math.max(to, Math.min(Date.parse(header.recordedAt), to + afterMs)))
  await settled(clock, gateway.stop())
  for (const [index, fate] of fates.entries())
    if (fate?.kind === 'digest' && fate.digest !== undefined) {
      const leftAt = leftOfDigest.get(fate.digest)
      if (leftAt !== undefined) fates[index] = { ...fate, leftAt }
    }
  return { fates, arrivals: arrivals.filter(({ at }) => from <= at && at < to) }
}

/** Joins what one module posted in the same millisecond, like a batch; cancellations come at their instants. */
function stepsOf(lines: readonly TrafficLine[], requests: readonly TrafficLine[]): readonly Step[] {
  const steps: Step[] = []
  let batch: TrafficLine[] = []
  for (const line of requests) {
    const [first] = batch
    const joins =
      first !== undefined &&
      batch.length < batchMax &&
      first.digest === undefined &&
      line.digest === undefined &&
      first.tenant === line.tenant &&
      first.module === line.module &&
      (first.passedAt ?? first.at) === (line.passedAt ?? line.at)
    if (!joins) {
      batch = []
      steps.push({ at: Date.parse(line.passedAt ?? line.at), lines: batch })
    }
    batch.push(line)
  }
  for (const line of lines)
    if (line.cancelledAt !== undefined && line.leftAt === undefined)
      steps.push({ at: Date.parse(line.cancelledAt), lines: [], cancels: line })
  return steps.sort((a, b) => a.at - b.at)
}

/** Drafts of one call. */
const batchMax = 500

async function post(gateway: Gateway, lines: readonly TrafficLine[]): Promise<void> {
  const { tenant, module } = lines[0]!
  await gateway.gate.admit({ caller: { tenant, module }, drafts: lines.map(draftOf) })
}

/** Lets virtual time come to rest until the work is done: a commit is written by then. */
async function settled<T>(clock: VirtualClock, work: Promise<T>): Promise<T> {
  let isOpen = true
  const end = (): void => {
    isOpen = false
  }
  work.then(end, end)
  while (isOpen) await clock.settle()
  return work
}

const deliveredAtOnce: Promise<SendResult> = Promise.resolve({ outcome: 'delivered' })
const idealProvider: Provider = {
  name: 'sandbox',
  idempotent: true,
  channels,
  send: () => deliveredAtOnce,
  close: () => Promise.resolve(),
}

/** Renders nothing: a message's text has no part in when it may leave. */
const wordless: Templates = { has: () => true, hasSubject: () => true, render: () => ({ text: '' }) }
