/**
 * A whole gateway in virtual time: the real stages over a store in memory (or a file), the sandbox as provider of
 * every channel, seeded chance. Tests post drafts, let time pass, and look at what arrived. `check` holds the run
 * against the invariants with code that shares nothing with what it checks.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { createRandom } from '../src/adapters/random.ts'
import { loadConfig } from '../src/config/load.ts'
import { createGateway, type Gateway, type GatewayParts } from '../src/gateway.ts'
import type { Draft } from '../src/model.ts'
import { type Notification, type Status, statuses } from '../src/model.ts'
import { compilePolicy } from '../src/policy/compile.ts'
import type { Provider, Store } from '../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../src/simulation/clock.ts'
import type { Admitted, Caller } from '../src/stages.ts'
import { createSqliteStore } from '../src/store/sqlite/sqlite.ts'

export const second = 1_000
export const minute = 60 * second
export const hour = 60 * minute
export const day = 24 * hour

export interface HarnessOptions {
  /** The policy as YAML text or as a document. Absent: the built-in one. */
  readonly policy?: string | object
  /** More of sluice.yaml. Tenants are unlimited unless it says otherwise. */
  readonly config?: object
  /** @defaultValue 2026-11-21T12:00:00Z */
  readonly start?: number
  /** @defaultValue SLUICE_SEED or 1 */
  readonly seed?: number
  /** A clock that several gateways share. @defaultValue one of its own */
  readonly clock?: VirtualClock
  /** A database file that outlives the harness. @defaultValue in memory */
  readonly file?: string
  /** Stands between the gateway and its store. */
  readonly wrap?: (store: Store) => Store
  readonly parts?: Partial<GatewayParts>
  /** False where the test begins the stages. @defaultValue true */
  readonly stages?: false
  /** In the sandbox's place, on the clock of the harness. */
  readonly providers?: (clock: VirtualClock) => readonly Provider[]
}

export interface Sent {
  readonly id: string
  readonly at: number
  readonly recipient: string
  readonly channel: string
  readonly category: string
  readonly account: string
  readonly message: { readonly content: Readonly<Record<string, unknown>>; readonly data?: unknown }
}

export interface Harness {
  readonly gateway: Gateway
  readonly clock: VirtualClock
  readonly start: number
  /** Posts one draft; what it leaves out is a product email with new text to `ada`. */
  post(draft?: Partial<Draft> & { readonly recipient?: string }, caller?: Caller): Promise<Notification>
  /** The same, also when it is refused. */
  tryPost(draft?: Partial<Draft> & { readonly recipient?: string }, caller?: Caller): Promise<Admitted>
  postMany(drafts: readonly Partial<Draft>[], caller?: Caller): Promise<readonly Notification[]>
  runFor(ms: number): Promise<void>
  runUntil(instant: number): Promise<void>
  /** Puts another policy in force while the gateway runs. */
  reload(policy: object): Promise<void>
  /** Settles what was set in motion and gives the value: for calls of the gate. */
  done<T>(promise: Promise<T>): Promise<T>
  sent(filter?: { readonly recipient?: string; readonly channel?: string }): readonly Sent[]
  notification(id: string, tenant?: string): Promise<Notification>
  counts(): Readonly<Record<Status, number>>
  /** Conservation, tallies against the record, each notification delivered at most once. */
  check(): Promise<void>
  stop(): Promise<void>
}

export const testSeed = Number(process.env.SLUICE_SEED ?? 1)

/** A small generator of its own (Park and Miller, 1988), so that a run depends on its seed alone. */
export function seeded(seed: number): () => number {
  let state = (Math.abs(Math.trunc(seed)) % 2_147_483_646) + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return (state - 1) / 2_147_483_646
  }
}

export async function createHarness(options: HarnessOptions = {}): Promise<Harness> {
  const start = options.clock?.now() ?? options.start ?? Date.UTC(2026, 10, 21, 12)
  const clock = options.clock ?? createVirtualClock(start)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const config = loadConfig({ path: writeConfig(folder, options), env: {}, cwd: folder })
  const random = createRandom(seeded(options.seed ?? testSeed))
  // A thread would work in real time, which the virtual clock does not wait for.
  const wrap = options.wrap ?? ((store: Store) => store)
  const store =
    options.file === undefined && options.wrap === undefined
      ? {}
      : { store: wrap(createSqliteStore({ path: options.file ?? ':memory:', clock, thread: false })) }
  async function done<T>(promise: Promise<T>): Promise<T> {
    let open = true
    const watched = promise.finally(() => {
      open = false
    })
    watched.catch(() => undefined)
    for (let turns = 0; open && turns < 10_000; turns += 1) await clock.settle()
    return watched
  }

  const gateway = await createGateway(config, {
    clock,
    random,
    ...store,
    ...(options.providers === undefined ? {} : { providers: options.providers(clock) }),
    ...options.parts,
  })
  if (options.stages !== false) await done(gateway.startStages())
  let serial = 0
  const mine: Caller = { tenant: 'default', module: 'default' }

  function complete({
    recipient = 'ada',
    ...draft
  }: Partial<Draft> & { readonly recipient?: string }): Draft {
    serial += 1
    const to = {
      id: recipient,
      email: `${recipient}@example.com`,
      phone: '+390612345678',
      pushToken: `push-${recipient}`,
    }
    const said = [draft.template, draft.content, draft.shared].some((each) => each !== undefined)
    const content = { subject: `Message ${serial}`, text: `Message ${serial}` }
    return {
      to,
      channel: 'email',
      category: 'product',
      priority: 'normal',
      ...(said ? {} : { content }),
      ...draft,
    }
  }

  async function tryPost(
    draft: Partial<Draft> & { readonly recipient?: string } = {},
    caller = mine,
  ): Promise<Admitted> {
    const [result] = await done(gateway.gate.admit({ caller, drafts: [complete(draft)] }))
    return result!
  }

  async function everything(): Promise<readonly Notification[]> {
    const all: Notification[] = []
    const tenants = new Set((await gateway.store.tallies()).map((tally) => tally.tenant))
    for (const tenant of tenants) {
      let cursor: string | undefined
      do {
        const page = await gateway.store.list({
          tenant,
          limit: 500,
          ...(cursor === undefined ? {} : { cursor }),
        })
        all.push(...page.items)
        cursor = page.nextCursor ?? undefined
      } while (cursor !== undefined)
    }
    return all
  }

  function sent(filter: { readonly recipient?: string; readonly channel?: string } = {}): readonly Sent[] {
    return gateway.sandbox.received(filter).map(({ at, account, message }) => ({
      id: message.id,
      at,
      account,
      recipient: message.to.id,
      channel: message.channel,
      category: message.category,
      message,
    }))
  }

  /** Counts what waits from the record, by code that shares nothing with the backlog, and compares. */
  function checkBacklog(all: readonly Notification[]): void {
    const now = clock.now()
    const counted: Record<string, number> = {}
    const last: Record<string, number> = {}
    const dead: Record<string, number> = {}
    for (const { status, decision, timeline, dueAt, channel } of all) {
      const newest = timeline.at(-1)?.reason
      if (status === 'dead') dead[`${channel} ${newest}`] = (dead[`${channel} ${newest}`] ?? 0) + 1
      if (!['scheduled', 'digesting', 'queued', 'sending'].includes(status)) continue
      const why = newest ?? (status === 'queued' ? undefined : decision.reason)
      const dueSecond = Math.ceil(dueAt / second)
      const isDue = status === 'queued' || (dueSecond <= Math.floor(now / second) && why !== 'digest')
      const isUndecided = status === 'queued' && why === 'state_unavailable'
      const reason = isDue && !isUndecided ? 'provider_capacity' : (why ?? 'none')
      counted[reason] = (counted[reason] ?? 0) + 1
      if (!isDue) last[reason] = Math.max(last[reason] ?? 0, dueSecond * second)
    }
    const { groups } = gateway.backlog.report({ by: 'reason', now, capacityOf: () => undefined })
    assert.deepEqual(
      Object.fromEntries(groups.map(({ key, count }) => [key, count])),
      counted,
      'the backlog counts what waits on record',
    )
    for (const { key, lastAt } of groups) assert.equal(lastAt ?? undefined, last[key], `${key} is gone`)
    const letters: Record<string, number> = {}
    for (const { channel, cause, count } of gateway.backlog.deadLetters({}))
      letters[`${channel} ${cause}`] = (letters[`${channel} ${cause}`] ?? 0) + count
    assert.deepEqual(letters, dead, 'the backlog counts the dead letters on record')
  }

  return {
    gateway,
    clock,
    start,
    done,
    tryPost,
    async post(draft, caller) {
      return (await tryPost(draft, caller)).notification
    },
    async postMany(drafts, caller = mine) {
      const results = await done(gateway.gate.admit({ caller, drafts: drafts.map(complete) }))
      return results.map(({ notification }) => notification)
    },
    runFor: (ms) => clock.runUntil(clock.now() + ms),
    runUntil: (instant) => clock.runUntil(instant),
    reload: (policy) =>
      gateway.reload({ ...config, policy: { ...config.policy, compiled: compilePolicy(policy) } }),
    sent,
    async notification(id, tenant = 'default') {
      const found = await gateway.store.notification(tenant, id)
      assert.ok(found !== undefined, `notification ${id} is on record`)
      return found
    },
    counts: () => gateway.ledger.counts(),
    async check() {
      const counted = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
      for (const { status } of await everything()) counted[status] += 1
      assert.deepEqual(gateway.ledger.counts(), counted, 'the ledger counts what is on record')
      const tallied = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
      for (const tally of await gateway.store.tallies()) tallied[tally.status] += tally.count
      assert.deepEqual(tallied, counted, 'the tallies count what is on record')
      checkBacklog(await everything())
      const ids = sent().map((message) => message.id)
      assert.equal(new Set(ids).size, ids.length, 'nothing is sent twice')
    },
    async stop() {
      await done(gateway.stop())
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function writeConfig(folder: string, { policy, config, file }: HarnessOptions): string {
  const path = join(folder, 'sluice.yaml')
  if (policy !== undefined) {
    writeFileSync(join(folder, 'policy.yaml'), typeof policy === 'string' ? policy : stringify(policy))
  }
  const document = {
    store: `sqlite:${file ?? ':memory:'}`,
    tenants: { default: { rate: 'unlimited', modules: 'unlimited' } },
    log: { level: 'silent' },
    ...(policy === undefined ? {} : { policy: './policy.yaml' }),
    ...config,
  }
  writeFileSync(path, stringify(document))
  return path
}

/** The most instants in any half-open interval of the given length: every literal window, counted one by one. */
export function densest(instants: readonly number[], windowMs: number): number {
  const sorted = [...instants].sort((a, b) => a - b)
  let most = 0
  for (const [index, from] of sorted.entries()) {
    let end = index
    while (end < sorted.length && sorted[end]! < from + windowMs) end += 1
    most = Math.max(most, end - index)
  }
  return most
}
