/**
 * The proofs of a fleet share their numbers, the load that they put on several gateways, and how they count at the provider. A message is posted under one key until a gateway accepts it, so that none is given up for a kill.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Answer } from '../../packages/gateway/test/child.ts'
import {
  type Call,
  callsOf,
  inParallel,
  type startFleet,
  type TestFleet,
} from '../../packages/gateway/test/guarantees/fleet.ts'
import { type Allowed, overfull } from '../../packages/gateway/test/guarantees/windows.ts'

/** How large a proof is made, on the command line. */
export interface Numbers {
  /** Messages, recipients or changes, as the proof says. */
  readonly count: number
  readonly seconds: number
  /** Requests at once. */
  readonly clients: number
  /** Kills, crashes or pauses. */
  readonly times: number
  readonly processes: number
  readonly seed: number
}

export interface ProofContext extends Numbers {
  readonly cleanup: Parameters<typeof startFleet>[0]
  /** Shows how far it is. */
  progress(text: string): void
}

export interface Verdict {
  readonly figures: Readonly<Record<string, unknown>>
  readonly isRight: boolean
}

export interface Proof {
  readonly shows: string
  readonly engines: readonly string[]
  /** The numbers of a minute, and of the release. */
  readonly small: Partial<Numbers>
  readonly full: Partial<Numbers>
  readonly run: (context: ProofContext) => Promise<Verdict>
}

/** Time between two beats, as of `sluice serve`, ms: a gateway is declared dead after 12 s. */
export const beatMs = 2_000

/** Without it recipients would wait for the limits and quiet hours of the built-in policy. */
export const unlimited = { version: 1, limits: [] }

export const now = (): number => performance.timeOrigin + performance.now()

/** Posts at all gateways in turn for so long; returns the ids that were accepted. */
export async function postFor(fleet: TestFleet, ms: number, recipients: number): Promise<readonly string[]> {
  const until = performance.now() + ms
  const accepted: string[] = []
  await inParallel(8, 8, async (n) => {
    for (let k = 0; performance.now() < until; k += 1, await sleep(40)) {
      const recipient = { id: `p${(8 * k + n) % recipients}` }
      const at = (n + k) % fleet.sites.length
      const answer = await fleet.post(at, { body: { recipient } }).catch(() => undefined)
      if (answer?.status === 202) accepted.push(answer.json<{ notificationId: string }>().notificationId)
    }
  })
  return accepted
}

/** Waits until all of the ids were called, no longer than that. */
export async function missingAfter(
  fleet: TestFleet,
  ids: readonly string[],
  withinMs: number,
): Promise<readonly string[]> {
  for (const until = performance.now() + withinMs; ; await sleep(500)) {
    const called = new Set((await callsOf(fleet)).map(({ id }) => id))
    const missing = ids.filter((id) => !called.has(id))
    if (missing.length === 0 || performance.now() > until) return missing
  }
}

/** Windows with more calls than they may have, over all recipients. */
export const windowsOver = (calls: readonly Call[], allowed: Allowed): number =>
  [...Map.groupBy(calls, ({ tenant, recipient }) => `${tenant} ${recipient}`).values()]
    .map((own) =>
      overfull(
        own.map(({ at }) => at),
        allowed,
      ),
    )
    .reduce((sum, over) => sum + over, 0)

export interface LoadOptions {
  readonly count: number
  readonly clients: number
  readonly perSecond: number
  readonly recipients: number
  /** How much later than its acceptance every second message is to be sent, ms. @defaultValue 0 */
  readonly sendAfterMs?: number
  /** Message of this number and those behind it wait. @defaultValue Infinity */
  readonly barrier?: () => number
  /** @defaultValue 4000 */
  readonly timeoutMs?: number
}

export interface Load {
  /** When each was accepted, by its id. */
  readonly accepted: ReadonlyMap<string, number>
  /** How many have been posted. */
  readonly posted: () => number
  /** Answers that were neither 202 nor 409 nor 503. */
  readonly wrong: readonly string[]
  readonly done: Promise<unknown>
}

/** Posts so many messages in a second at gateways in turn, each again at the next gateway until it is accepted. */
export function startLoad(fleet: TestFleet, options: LoadOptions): Load {
  const { count, clients, perSecond, recipients, sendAfterMs = 0, timeoutMs = 4_000 } = options
  const { barrier = () => Number.POSITIVE_INFINITY } = options
  const accepted = new Map<string, number>()
  const wrong: string[] = []
  let posted = 0
  let dueAt = performance.now()
  const done = inParallel(count, clients, async (index) => {
    while (index >= barrier()) await sleep(20)
    // A delay is not made up for by a burst.
    dueAt = Math.max(performance.now() - 1_000, dueAt) + 1_000 / perSecond
    await sleep(Math.max(0, dueAt - performance.now()))
    posted += 1
    const text = `Message ${index}`
    const body = {
      recipient: { id: `p${index % recipients}` },
      channel: 'webhook',
      content: { subject: text, text },
      ...(sendAfterMs > 0 && index % 2 === 0
        ? { sendAt: new Date(Date.now() + sendAfterMs).toISOString() }
        : {}),
    }
    const headers = { 'x-tenant-id': 'default', 'idempotency-key': `message-${index}` }
    for (let turn = index; ; turn += 1, await sleep(50)) {
      const site = fleet.sites[turn % fleet.sites.length]!
      const answer: Answer | undefined = await site
        .call('POST', '/api/v1/notifications', body, headers, timeoutMs)
        .catch(() => undefined)
      if (answer?.status === 202) {
        accepted.set(answer.json<{ notificationId: string }>().notificationId, now())
        return
      }
      if (answer !== undefined && ![409, 503].includes(answer.status)) wrong.push(answer.text)
    }
  })
  return { accepted, posted: () => posted, wrong, done }
}

/**
 * Starts the gateways that do not run, as a supervisor does; returns how many of those that it started were declared dead
 * before they were ready, which happens where the cores are taken for longer than the beats may be silent.
 */
export async function keepRunning({ sites }: TestFleet): Promise<number> {
  let declaredDead = 0
  for (const site of sites)
    while (site.pid === undefined)
      await site.start().catch((error: unknown) => {
        if (!String(error).includes('gateway.declared_dead')) throw error
        declaredDead += 1
      })
  return declaredDead
}

/** Runs one statement at an address of a store, behind the back of the gateways. */
export async function query(url: string, text: string): Promise<pg.QueryResultRow[]> {
  const schema = new URL(url).searchParams.get('schema') ?? 'sluice'
  const client = new pg.Client({ connectionString: url.replace(/[?].*/, '') })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query(`SET search_path = ${schema}`)
    return (await client.query(text)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

/** Waits until nothing is unsettled on record, no longer than that; returns how many are. */
export async function unsettledAfter(store: string, withinMs: number): Promise<number> {
  for (const until = performance.now() + withinMs; ; await sleep(500)) {
    const [row] = await query(store, 'SELECT count(*)::int AS n FROM live').catch(() => [])
    if (row?.n === 0 || performance.now() > until) return (row?.n as number | undefined) ?? -1
  }
}

/** Calls of each id, in the order of their arrival. */
export const callsById = (calls: readonly Call[]): ReadonlyMap<string, readonly Call[]> =>
  Map.groupBy(
    calls.toSorted((a, b) => a.at - b.at),
    ({ id }) => id,
  )

/** Calls beyond the first one of each id. */
export const doublesOf = (calls: readonly Call[]): number =>
  calls.length - new Set(calls.map(({ id }) => id)).size
