/**
 * One wrong moment after the other. At its n-th call the store lets another writer go first or last, refuses the commit,
 * fails, or ends the process, whose file another gateway then opens. At the n-th await of the flow, be it between two
 * calls or within one, another writer begins and runs beside it, or the process ends. A flow is run once to count its
 * calls and awaits and then again for each of them, so that whatever it reads and then commits is met by everything that
 * may come between.
 */
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, openSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isFinal, type Notification } from '../src/model.ts'
import type { Clock, Store } from '../src/ports.ts'
import { createHarness, type Harness, type HarnessOptions, hour, second } from './harness.ts'
import { type Disturbed, type Event, expected, type Interfered, interfered } from './interfered-store.ts'

export interface Flow {
  readonly name: string
  /** The writer meets all awaits of this range, not some: from the first call of one name to the last of another. */
  readonly wholly?: { readonly from: string; readonly to: string; readonly writer: string }
  /** How long it takes until all must have come to their end, late ones too. @defaultValue 4 hours */
  readonly afterMs?: number
  /** Made anew for each run. */
  readonly options: () => HarnessOptions
  /**
   * The gateway before, which prepares and is stopped; then one that has not begun its stages opens its file, and
   * acts. @defaultValue the one that acts prepares too
   */
  readonly earlier?: () => HarnessOptions
  /** Up to the moment before; answers the ids that must come to an end. */
  prepare(harness: Harness): Promise<readonly string[]>
  /** The flow, which an event meets at each of its calls. Rejects only with errors that a client is told. */
  act(harness: Harness, ids: readonly string[]): Promise<unknown>
  readonly writers: Readonly<Record<string, (harness: Harness, ids: readonly string[]) => Promise<unknown>>>
  /** How much later than undisturbed it may come to its end, ms. @defaultValue 10_000 */
  readonly lateMsMax?: number
  /** Further assertions when all has come to its end. */
  verify?(harness: Harness, ids: readonly string[], disturbed: Disturbed | undefined): Promise<void>
}

/** Turns of the event loop without a step of the clock after which a flow rests, and the time that it is given then, ms. */
const restTurns = 2_000
const restMs = 50
/** How long a flow may rest in all, ms: an erasure gives up after 20 s. */
const restMsMax = hour

export interface Undisturbed {
  readonly calls: readonly string[]
  /** At each await, what a process that ended there would leave to the next one: what is on disk, and when. */
  readonly left: readonly string[]
  /** At each await, how many calls there were before. */
  readonly callsBefore: readonly number[]
  /** When each came to its end, by id. */
  readonly ends: ReadonlyMap<string, number>
}

/** The flow ended before the await at which something was to happen. */
class FewerAwaits extends Error {
  readonly awaits: number

  constructor(awaits: number) {
    super(`the flow has ${awaits} awaits, fewer than undisturbed`)
    this.awaits = awaits
  }
}

/**
 * How many awaits fewer a run may have than the one before, because the store's thread answers in fewer turns: 22 of 261 on a
 * machine whose cores were busy. What was to happen at the last ones happens some awaits earlier then, in a run of its own.
 */
const awaitsFewerMax = (awaits: number): number => Math.max(8, Math.ceil(awaits / 8))
/** So many awaits before the end of the shorter run it happens. */
const awaitsEarlier = 8

/** Runs the flow undisturbed. */
export async function observe(flow: Flow): Promise<Undisturbed> {
  return run(flow, undefined, undefined)
}

/** All that can happen at the calls of a flow, in their order. */
export function eventsAtCalls(flow: Flow, { calls }: Undisturbed): readonly Disturbed[] {
  return calls.flatMap((name, index) => {
    const isCommit = name === 'commit'
    const events: Event[] = [
      // A start that fails ends the process.
      ...(flow.earlier === undefined ? [{ kind: 'failure' } as const] : []),
      { kind: 'end', when: 'before' },
      ...(isCommit ? [{ kind: 'end', when: 'after' } as const, { kind: 'refusal' } as const] : []),
      ...Object.keys(flow.writers).flatMap((writer): Event[] => [
        { kind: 'writer', when: 'before', name: writer },
        { kind: 'writer', when: 'after', name: writer },
      ]),
    ]
    return events.map((event) => ({ at: { call: index + 1, name }, event }))
  })
}

/**
 * All that can happen at the awaits of a flow, in their order. A process that ends leaves what is on disk, so that of the
 * awaits between which nothing is written and no time passes one stands for all.
 */
export function eventsAtAwaits(flow: Flow, { left }: Undisturbed): readonly Disturbed[] {
  return left.flatMap((leaves, index) => {
    const events: Event[] = [
      ...(leaves === left[index - 1] ? [] : [{ kind: 'end', when: 'before' } as const]),
      ...Object.keys(flow.writers).map((name) => ({ kind: 'writer', when: 'beside', name }) as const),
    ]
    return events.map((event) => ({ at: { await: index + 1 }, event }))
  })
}

/** True for the events at awaits that are met in any case: the writer within the bounds that the flow names, and each end. */
export function isMetInAnyCase(
  flow: Flow,
  { calls, callsBefore }: Undisturbed,
  { at, event }: Disturbed,
): boolean {
  if (flow.wholly === undefined || !('await' in at)) return false
  const { from, to, writer } = flow.wholly
  const before = callsBefore[at.await - 1]!
  const isWithin = before > calls.indexOf(from) && before <= calls.lastIndexOf(to)
  return event.kind === 'end' || (isWithin && event.kind === 'writer' && event.name === writer)
}

export async function disturb(flow: Flow, disturbed: Disturbed, { ends }: Undisturbed): Promise<void> {
  const { at, event } = disturbed
  await run(flow, disturbed, ends)
    .catch((error: unknown) => {
      if (
        error instanceof FewerAwaits &&
        'await' in at &&
        at.await - error.awaits <= awaitsFewerMax(at.await)
      )
        return run(flow, { at: { await: error.awaits - awaitsEarlier }, event }, ends)
      throw error
    })
    .catch((error: unknown) => {
      throw new Error(`${flow.name}: at ${JSON.stringify(at)}: ${JSON.stringify(event)}`, { cause: error })
    })
}

async function run(
  flow: Flow,
  disturbed: Disturbed | undefined,
  undisturbed: ReadonlyMap<string, number> | undefined,
): Promise<Undisturbed> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-interference-'))
  const copy = join(folder, 'copy.db')
  const isOnDisk = disturbed === undefined || disturbed.event.kind === 'end' || flow.earlier !== undefined
  const file = isOnDisk ? join(folder, 'sluice.db') : undefined
  const onDisk = file === undefined ? {} : { file }
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
    if (flow.earlier === undefined) {
      harness = await createHarness({ ...options, ...onDisk, wrap })
      ids = await flow.prepare(harness)
    } else {
      const first = await createHarness({ ...flow.earlier(), ...onDisk })
      ids = await flow.prepare(first)
      await first.stop()
      harness = await createHarness({ ...options, ...onDisk, wrap, start: first.clock.now(), stages: false })
    }
    const left: string[] = []
    const callsBefore: number[] = []
    const onAwait = (): void => {
      left.push(leavingOf(file!, harness.clock))
      callsBefore.push(life!.calls.length)
    }
    life!.arm(disturbed, disturbed === undefined ? onAwait : undefined)
    await settled(flow.act(harness, ids), () => life!.dead, harness)
    life!.disarm()
    // At once: a look for them would bring them on their way later, and hide that they were left.
    if (!life!.dead) await noneIsLeftBehind(harness)
    const calls = [...life!.calls]
    if (disturbed !== undefined && 'await' in disturbed.at && life!.awaits < disturbed.at.await)
      throw new FewerAwaits(life!.awaits)
    if (life!.dead) {
      await life!.bury()
      const start = harness.clock.now() + second
      harness = await createHarness({ ...options, file: copy, start })
    }
    await harness.runFor(flow.afterMs ?? 4 * hour)
    await harness.done(life!.ended())
    const ends = new Map<string, number>()
    for (const id of ids) {
      const notification = await harness.notification(id)
      ends.set(id, endOf(notification))
      const due = undisturbed?.get(id)
      if (due !== undefined) inTime(notification, due + (flow.lateMsMax ?? 10 * second))
    }
    await noneIsLeftBehind(harness)
    await flow.verify?.(harness, ids, disturbed)
    // A settlement that is refused for no reason is an answer that is lost: it is sent again.
    if (disturbed?.event.kind !== 'refusal') await harness.check()
    await harness.stop()
    return { calls, left, callsBefore, ends }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function noneIsLeftBehind({ gateway }: Harness): Promise<void> {
  const { items } = await gateway.store.orphans(null, 100)
  assert.deepEqual(
    items.map(({ id }) => id),
    [],
    'no item is left behind',
  )
}

/**
 * A text that changes when what a kill leaves changes: the instant, and the header of SQLite's index of the log, which
 * counts the commits (https://www.sqlite.org/walformat.html, "The WAL-Index Header"). Hashing the files took a fifth of the run.
 */
function leavingOf(file: string, clock: Clock): string {
  const header = Buffer.alloc(48)
  const index = openSync(`${file}-shm`, 'r')
  try {
    readSync(index, header)
  } finally {
    closeSync(index)
  }
  return `${header.toString('hex')} ${clock.now()}`
}

/**
 * Waits for the end of a flow. A flow that rests, as an erasure does between two tries, is given virtual time: the clock
 * goes on when neither the flow nor a timer has moved it for many turns.
 */
async function settled(work: Promise<unknown>, isDead: () => boolean, { clock }: Harness): Promise<void> {
  let open = true
  const watched = work.catch(expected).finally(() => {
    open = false
  })
  const began = clock.now()
  for (let turns = 0, seen = began; open && !isDead(); turns += 1) {
    await clock.settle()
    if (clock.now() !== seen) [turns, seen] = [0, clock.now()]
    if (turns < restTurns) continue
    assert.ok(clock.now() - began < restMsMax, 'the flow comes to its end')
    await clock.runUntil(clock.now() + restMs)
  }
  if (!isDead()) await watched
}

const endOf = ({ timeline }: Notification): number => timeline.at(-1)!.at

function inTime(notification: Notification, latest: number): void {
  const { id, status } = notification
  assert.ok(isFinal(status) || status === 'dead', `${id} has come to its end: it is ${status}`)
  const lateMs = endOf(notification) - latest
  assert.ok(lateMs <= 0, `${id} came to its end as ${status}, ${lateMs} ms too late`)
}
