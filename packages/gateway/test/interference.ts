/**
 * One wrong moment after the other: a store that, at its n-th call, lets another writer go first or last, refuses the
 * commit, fails, or ends the process, whose file another gateway then opens. A flow is run once to count its calls and
 * then again for each of them, so that whatever it reads and then commits is met by everything that may come between.
 */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SluiceError } from '../src/errors.ts'
import { isFinal, type Notification } from '../src/model.ts'
import type { Change, Clock, CommitResult, Store } from '../src/ports.ts'
import { createHarness, type Harness, type HarnessOptions, hour, second } from './harness.ts'

/** What happens at a call; `before` and `after` are before it reaches the store, and before its answer comes back. */
export type Event =
  | { readonly kind: 'writer'; readonly when: 'before' | 'after'; readonly name: string }
  | { readonly kind: 'refusal' }
  | { readonly kind: 'failure' }
  | { readonly kind: 'end'; readonly when: 'before' | 'after' }

export interface Flow {
  readonly name: string
  /** Made anew for each run. */
  readonly options: () => HarnessOptions
  /** Up to the moment before; answers the ids that must come to an end. */
  prepare(harness: Harness): Promise<readonly string[]>
  /** What is met by something at each of its calls. Rejects with nothing but what a client is told. */
  act(harness: Harness, ids: readonly string[]): Promise<unknown>
  readonly writers: Readonly<Record<string, (harness: Harness, ids: readonly string[]) => Promise<unknown>>>
  /** How much later than undisturbed it may come to its end, ms. @defaultValue 10_000 */
  readonly lateMsMax?: number
  /** What else must hold when all has come to its end. */
  verify?(harness: Harness, ids: readonly string[], disturbed: Disturbed | undefined): Promise<void>
}

export interface Disturbed {
  readonly call: number
  readonly name: string
  readonly event: Event
}

interface Interfered {
  readonly store: Store
  readonly calls: readonly string[]
  readonly dead: boolean
  arm(call: number | undefined, event: Event | undefined): void
  /** Gives up what the process held that has ended. */
  bury(): Promise<void>
}

/** Until all has come to its end, late ones too. */
const afterMs = 4 * hour

/** What answers at once, or is not part of a flow. */
const unmet = new Set(['mayHave', 'claimedUntil', 'close', 'counters', 'check'])
/** Turns for a writer: who waits for the call itself goes on behind it. */
const turnsMax = 8

function interfered(
  store: Store,
  clock: () => Clock,
  write: (name: string) => Promise<unknown>,
  file: string | undefined,
  copy: string,
): Interfered {
  const calls: string[] = []
  let armed: { readonly call: number | undefined; readonly event: Event | undefined } | undefined
  let isWriting = false
  let dead = false
  const never = new Promise<never>(() => {})

  function die(): Promise<never> {
    dead = true
    for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
    return never
  }

  async function meet(name: string): Promise<void> {
    isWriting = true
    let done = false
    const work = write(name).catch(expected)
    work.finally(() => {
      done = true
    })
    for (let turn = 0; turn < turnsMax && !done; turn += 1)
      await new Promise<void>((resolve) => clock().soon(resolve))
    isWriting = false
  }

  async function call(name: string, invoke: () => Promise<unknown>, args: readonly unknown[]) {
    if (dead) return never
    if (armed === undefined || isWriting) return invoke()
    calls.push(name)
    const event = calls.length === armed.call ? armed.event : undefined
    if (event === undefined) {
      const answer = await invoke()
      return dead ? never : answer
    }
    if (event.kind === 'failure')
      throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
    if (event.kind === 'refusal') return refusalOf(args[0] as Change)
    if (event.kind === 'end' && event.when === 'before') return die()
    if (event.kind === 'writer' && event.when === 'before') await meet(event.name)
    const answer = await invoke()
    if (event.kind === 'end') return die()
    if (event.kind === 'writer' && event.when === 'after') await meet(event.name)
    return dead ? never : answer
  }

  return {
    calls,
    get dead() {
      return dead
    },
    bury: () => store.close(),
    arm(at, event) {
      calls.length = 0
      armed = { call: at, event }
    },
    store: new Proxy(store, {
      get(of, name) {
        const value = Reflect.get(of, name) as unknown
        if (typeof value !== 'function') return value
        const bound = value.bind(of) as (...args: unknown[]) => Promise<unknown>
        if (unmet.has(String(name))) return bound
        return (...args: unknown[]) => call(String(name), () => bound(...args), args)
      },
    }),
  }
}

function refusalOf({ moves = [], digests = [], jobs = [], accept = [], answer }: Change): CommitResult {
  const conflicts = [
    ...jobs.flatMap((write) => (write.kind === 'move' ? [write.after.id] : [])),
    ...digests.map(({ digest }) => digest.id),
    ...moves.map(({ before }) => before.id),
    ...(moves.length === 0 && digests.length === 0 ? accept.map(({ id }) => id) : []),
    ...(answer === undefined ? [] : [answer.key]),
  ]
  return { applied: false, conflicts: conflicts.slice(0, 1) }
}

/** What a client may be told; anything else is a defect. */
function expected(error: unknown): void {
  if (!(error instanceof SluiceError)) throw error
}

interface Undisturbed {
  readonly calls: readonly string[]
  /** When each came to its end, by id. */
  readonly ends: ReadonlyMap<string, number>
}

/** Runs the flow undisturbed. */
export async function observe(flow: Flow): Promise<Undisturbed> {
  const { calls, ends } = await run(flow, undefined, undefined)
  return { calls, ends }
}

/** All that can happen at the calls of a flow, in their order. */
export function eventsOf(flow: Flow, calls: readonly string[]): readonly Disturbed[] {
  return calls.flatMap((name, index) => {
    const isCommit = name === 'commit'
    const events: Event[] = [
      { kind: 'failure' },
      { kind: 'end', when: 'before' },
      ...(isCommit ? [{ kind: 'end', when: 'after' } as const, { kind: 'refusal' } as const] : []),
      ...Object.keys(flow.writers).flatMap((writer): Event[] => [
        { kind: 'writer', when: 'before', name: writer },
        { kind: 'writer', when: 'after', name: writer },
      ]),
    ]
    return events.map((event) => ({ call: index + 1, name, event }))
  })
}

export async function disturb(flow: Flow, disturbed: Disturbed, { ends }: Undisturbed): Promise<void> {
  await run(flow, disturbed, ends).catch((error: unknown) => {
    throw new Error(
      `${flow.name}: at call ${disturbed.call}, ${disturbed.name}: ${JSON.stringify(disturbed.event)}`,
      {
        cause: error,
      },
    )
  })
}

async function run(
  flow: Flow,
  disturbed: Disturbed | undefined,
  undisturbed: ReadonlyMap<string, number> | undefined,
): Promise<Undisturbed> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-interference-'))
  const copy = join(folder, 'copy.db')
  const file = disturbed?.event.kind === 'end' ? join(folder, 'sluice.db') : undefined
  try {
    let life: Interfered | undefined
    let ids: readonly string[] = []
    let harness: Harness
    const wrap = (store: Store): Store => {
      life = interfered(
        store,
        () => harness.clock,
        (name) => flow.writers[name]!(harness, ids),
        file,
        copy,
      )
      return life.store
    }
    const options = flow.options()
    harness = await createHarness({ ...options, wrap, ...(file === undefined ? {} : { file }) })
    ids = await flow.prepare(harness)
    life!.arm(disturbed?.call, disturbed?.event)
    await settled(flow.act(harness, ids), () => life!.dead, harness)
    const calls = [...life!.calls]
    if (life!.dead) {
      await life!.bury()
      const start = harness.clock.now() + second
      harness = await createHarness({ ...options, file: copy, start })
    }
    life!.arm(undefined, undefined)
    await harness.runFor(afterMs)
    const ends = new Map<string, number>()
    for (const id of ids) {
      const notification = await harness.notification(id)
      ends.set(id, endOf(notification))
      const due = undisturbed?.get(id)
      if (due !== undefined) inTime(notification, due + (flow.lateMsMax ?? 10 * second))
    }
    const orphans = await harness.gateway.store.orphans(null, 100)
    assert.deepEqual(orphans.items, [], 'no item is left behind')
    await flow.verify?.(harness, ids, disturbed)
    // A settlement that is refused for no reason is an answer that is lost: it is sent again.
    if (disturbed?.event.kind !== 'refusal') await harness.check()
    await harness.stop()
    return { calls, ends }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function settled(work: Promise<unknown>, isDead: () => boolean, harness: Harness): Promise<void> {
  let open = true
  const watched = work.catch(expected).finally(() => {
    open = false
  })
  for (let turns = 0; open && !isDead() && turns < 100_000; turns += 1) await harness.clock.settle()
  if (!isDead()) await watched
}

const endOf = ({ timeline }: Notification): number => timeline.at(-1)!.at

function inTime(notification: Notification, latest: number): void {
  const { id, status } = notification
  assert.ok(isFinal(status) || status === 'dead', `${id} has come to its end: it is ${status}`)
  const lateMs = endOf(notification) - latest
  assert.ok(lateMs <= 0, `${id} came to its end as ${status}, ${lateMs} ms too late`)
}
