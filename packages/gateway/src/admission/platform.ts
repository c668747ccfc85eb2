/**
 * The limits of a tenant and of its modules. They count acceptances: what they do not admit now is accepted all the
 * same, stands in the line of its module (line.ts), and is decided for its recipient only when its turn comes. This is
 * the shell around that line: it rebuilds it from the record, writes verdicts, and wakes whoever moves up to an
 * instant before the one on record. Everybody else comes up by the agenda, at the instant that was promised.
 */
import type { Window } from '@sluice/limits'
import type { Caller, PlatformUsage } from '../doors.ts'
import { delayingLimit, type Notification, type RuleReport } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import { type Case, undecidedVerdict } from './case.ts'
import { type Counted, Line, type Place, type Stood } from './line.ts'
import type { WindowUse } from './windows.ts'

export interface PlatformRates {
  /** All modules of a tenant together; none: unlimited. */
  readonly tenant: readonly Window[]
  /** Each module of it. */
  readonly module: readonly Window[]
}

export interface PlatformOptions {
  readonly store: Pick<Store, 'admissions' | 'inLine'>
  readonly clock: Clock
  readonly ratesOf: (tenant: string) => PlatformRates
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
  readonly policyVersion: string
  /** Brings those to their decision whose turn has come before the instant on record. */
  readonly callUp: (tenant: string, ids: readonly string[]) => Promise<void>
  readonly onTrouble?: (what: string, error: unknown) => void
}

export interface Passed {
  /** Uncounts these of the cases, or all: nothing was accepted. */
  takeBack(of?: readonly Case[]): Promise<void>
}

/** Whether it has passed, counted at this instant, or stands in the line until then. */
export interface Turn {
  readonly passed: boolean
  readonly at: number
}

export interface PlatformLine {
  /** Counts those that may pass now; gives the others the verdict that they wait. All of one tenant. */
  pass(cases: readonly Case[]): Promise<Passed>
  /** For what is due and stood in the line. */
  turn(notification: Notification): Promise<Turn>
  /** Takes those out that end while they still stand in the line; what has passed stays counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(each: Case): Promise<void>
  /** The verdict on what stands in the line until then. */
  wait(each: Case, at: number): void
  /** What the limits leave. Empty where there are none. */
  usage(caller: Caller): readonly PlatformUsage[] | Promise<readonly PlatformUsage[]>
  /** Which of the two makes it wait. */
  behind(notification: Notification): 'tenant' | 'module' | undefined
  /** Rebuilds the lines in which somebody stands. */
  start(): Promise<void>
  stop(): Promise<void>
}

const uncounted: Passed = { takeBack: async () => {} }

interface Entry {
  readonly line: Line
  armedFor: number | undefined
  disarm: (() => void) | undefined
}

/** Rows of the record read at once. */
const pageMax = 1_000
/** Of one tenant's acceptances within the widest window so many are counted after a restart: 100 MB while they are read. */
const admissionsMax = 100_000
/** Above so many tenants those are forgotten of whom nothing is counted any more. */
const tenantsMax = 10_000

export function createPlatformLine(options: PlatformOptions): PlatformLine {
  const { store, clock, ratesOf, marginMs, policyVersion } = options
  const entries = new Map<string, Entry>()
  const loading = new Map<string, Promise<Entry>>()
  const working = new Set<Promise<void>>()
  let sweepAt = tenantsMax
  let begun: Promise<void> | undefined
  let ready = false
  let stopped = false

  // ---- from the record

  /** The lines in which somebody stands, of all tenants. */
  async function begin(): Promise<void> {
    const byTenant = new Map<string, Stood[]>()
    let after: string | undefined
    do {
      const page = await store.inLine({ limit: pageMax, ...(after === undefined ? {} : { after }) })
      for (const { id, tenant, module, dueAt, promisedAt = dueAt } of page) {
        const stood = byTenant.get(tenant) ?? []
        stood.push({ id, module, at: promisedAt, dueAt })
        byTenant.set(tenant, stood)
      }
      after = page.length < pageMax ? undefined : page.at(-1)!.id
    } while (after !== undefined)
    for (const [tenant, stood] of byTenant) await load(tenant, stood)
    ready = true
  }

  async function load(tenant: string, stood: readonly Stood[] = []): Promise<Entry> {
    const rates = ratesOf(tenant)
    const line = new Line({ ...rates, marginMs })
    const windowMs = Math.max(0, ...[...rates.tenant, ...rates.module].map((window) => window.windowMs))
    const since = clock.now() - windowMs - marginMs
    const admissions = await store.admissions({ tenant, since, limit: admissionsMax })
    const urgent: Counted[] = []
    for (const { module, priority, actors, countedAt: at } of admissions) {
      // The items of a digest were counted when they were accepted.
      if (at === undefined || at < since || actors !== undefined) continue
      if (priority === 'critical') urgent.push({ module, at })
      else line.count(module, at)
    }
    line.restore(stood, urgent, clock.now())
    const entry: Entry = { line, armedFor: undefined, disarm: undefined }
    if (entries.size >= sweepAt) sweep()
    entries.set(tenant, entry)
    tend(tenant, entry)
    return entry
  }

  function sweep(): void {
    const now = clock.now()
    for (const [tenant, { line }] of entries) if (line.isIdle(now)) entries.delete(tenant)
    sweepAt = Math.max(tenantsMax, 2 * entries.size)
  }

  const isLimited = (tenant: string): boolean => {
    const { tenant: together, module } = ratesOf(tenant)
    return together.length > 0 || module.length > 0
  }

  /** Undefined where there are no limits and nobody waits since there were some. At once where nothing has to be read. */
  function entryOf(tenant: string): Entry | undefined | Promise<Entry | undefined> {
    if (!ready) return started().then(() => entryOf(tenant))
    const known = entries.get(tenant)
    if (known !== undefined || !isLimited(tenant)) return known
    let entry = loading.get(tenant)
    if (entry === undefined) {
      entry = load(tenant).finally(() => loading.delete(tenant))
      loading.set(tenant, entry)
    }
    return entry
  }

  function started(): Promise<void> {
    begun ??= begin().catch((error: unknown) => {
      begun = undefined
      throw error
    })
    return begun
  }

  // ---- those who move up

  function tend(tenant: string, entry: Entry): void {
    const next = stopped ? undefined : entry.line.nextEarly()
    if (next === entry.armedFor) return
    entry.disarm?.()
    entry.armedFor = next
    entry.disarm = next === undefined ? undefined : clock.at(next, () => call(tenant, entry))
  }

  function call(tenant: string, entry: Entry): void {
    entry.armedFor = undefined
    entry.disarm = undefined
    const ids = entry.line.callEarly(clock.now())
    if (ids.length > 0) {
      const work = options
        .callUp(tenant, ids)
        .catch((error: unknown) => options.onTrouble?.('call up who stands in a line', error))
        .finally(() => working.delete(work))
      working.add(work)
    }
    tend(tenant, entry)
  }

  // ---- verdicts

  function delay(
    each: Case,
    { at, behind }: Pick<Place, 'at' | 'behind'>,
    rules: readonly RuleReport[],
  ): void {
    const { expiresAt = at } = each.notification
    // What is of no use by then waits for its end only.
    each.verdict = undecidedVerdict(policyVersion, Math.min(at, expiresAt), `${behind}_limit`, {
      at,
      limit: behind,
      rules,
    })
  }

  const isCritical = ({ notification }: Case): boolean => notification.priority === 'critical'

  function pass({ line }: Entry, cases: readonly Case[]): ReadonlyMap<Case, Place> {
    const now = clock.now()
    const places = new Map<Case, Place>()
    let rules: readonly RuleReport[] | undefined
    for (const each of cases) {
      const { id, module, expiresAt } = each.notification
      // What is critical passes, and counts all the same.
      if (isCritical(each)) {
        line.count(module, now)
        places.set(each, { at: now, waits: false, behind: 'tenant' })
        continue
      }
      const use = rules === undefined && line.peek(module, now).waits ? line.use(module, now) : undefined
      if (use !== undefined) rules = use.map((row) => ruleReport(row, now))
      const place = line.join(module, id, now, expiresAt)
      places.set(each, place)
      if (place.waits) delay(each, place, rules ?? [])
    }
    return places
  }

  /** The way back for those who have passed or joined the line. */
  function returning(entry: Entry, cases: readonly Case[], places: ReadonlyMap<Case, Place>): Passed {
    const { line } = entry
    const left = new Map(places)
    return {
      async takeBack(of = cases) {
        for (const each of of.toReversed()) {
          const place = left.get(each)
          if (place === undefined || !left.delete(each)) continue
          const { id, module, tenant } = each.notification
          if (place.waits) line.leave(module, id, clock.now())
          else line.uncount(module, place.at, clock.now())
          tend(tenant, entry)
        }
      },
    }
  }

  return {
    async pass(cases) {
      const tenant = cases[0]?.notification.tenant
      const entry = tenant === undefined ? undefined : await entryOf(tenant)
      return entry === undefined ? uncounted : returning(entry, cases, pass(entry, cases))
    },
    async turn({ id, tenant, module }) {
      const now = clock.now()
      const entry = await entryOf(tenant)
      const turn = entry?.line.turn(module, id, clock.now())
      if (entry === undefined || turn === undefined) return { passed: true, at: now }
      tend(tenant, entry)
      return turn
    },
    async giveBack(notifications) {
      for (const { id, tenant, module } of notifications.filter(
        (each) => delayingLimit(each) !== undefined,
      )) {
        const entry = await entryOf(tenant)
        if (entry?.line.leave(module, id, clock.now()) === true) tend(tenant, entry)
      }
    },
    async preview(each) {
      const { tenant, module } = each.notification
      const line = isCritical(each) ? undefined : (await entryOf(tenant))?.line
      const now = clock.now()
      const place = line?.peek(module, now)
      if (line === undefined || place?.waits !== true) return
      delay(
        each,
        place,
        line.use(module, now).map((row) => ruleReport(row, now)),
      )
    },
    wait(each, at) {
      const { decision } = each.notification
      delay(each, { at, behind: delayingLimit(each.notification) ?? 'tenant' }, decision.rules)
    },
    usage({ tenant, module }) {
      if (!isLimited(tenant)) return []
      const use = (entry: Entry | undefined) => entry?.line.use(module, clock.now()) ?? []
      const entry = entryOf(tenant)
      return entry instanceof Promise ? entry.then(use) : use(entry)
    },
    behind: delayingLimit,
    async start() {
      await entryOf('')
    },
    async stop() {
      stopped = true
      for (const [tenant, entry] of entries) tend(tenant, entry)
      while (working.size > 0) await Promise.all(working)
    },
  }
}

function ruleReport({ of, window, used, max, remaining, freesAt }: WindowUse, now: number): RuleReport {
  return {
    limit: of,
    window,
    used,
    max,
    remaining,
    freesAt: Number.isFinite(freesAt) ? freesAt : null,
    admits: freesAt <= now,
  }
}
