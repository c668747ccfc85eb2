/**
 * The one writing connection of a process, in the order of the calls. Changes and requests for the right to send that
 * arrive while a group is written share the next call, its transaction and its flush; claims and chores are tasks
 * between two groups. A lost connection is replaced by one with the next epoch: what was under way on the old one
 * has ended by then or is refused for good, so that the record tells what became of it.
 */
import { SluiceError } from '../../errors.ts'
import type { Notification } from '../../model.ts'
import type { Change, Clock, CommitResult, Conflict } from '../../ports.ts'
import type { PostgresAddress } from './address.ts'
import { type EncodedChange, encodeChange, encodeGroup, versionOf } from './codec.ts'
import { type Connection, connect, type Db } from './connection.ts'
import { takeGroup, touchedBy } from './group.ts'
import { lockStore } from './member.ts'
import { closed, isFenced, isInTheWay, isRefusedValue, storeFault, unreachable } from './postgres-errors.ts'
import type { PseudonymOf } from './pseudonyms.ts'

/** The writing connection as a task has it. `epoch` goes with each call of a function of the schema. */
interface WritingConnection extends Db {
  readonly epoch: number
}

/** A notification for which the right to send is asked. */
export interface AskedRight {
  readonly notification: Notification
  /** The name of what an erasure has left of its recipient, where that may stand in its place. */
  readonly pseudonym?: string
}

/** Ids of notifications that have the right to send, with the versions of their recipients on record. */
type RecipientVersions = ReadonlyMap<string, number>

export interface BegunRights {
  readonly begun: RecipientVersions
  /** The newest registration of each server of limiter state; empty where this process is alone. */
  readonly servers: ReadonlyMap<string, number>
  /** The mark of the holds on record; undefined where this process is alone. */
  readonly holds: string | undefined
  /** The instant of `Clock.monotonic` at which they were asked for, directly before the statement was sent. */
  readonly askedAt: number
}

export interface Writer {
  commit(change: Change): Promise<CommitResult>
  /** Asks for the right to send. */
  begin(asked: readonly AskedRight[]): Promise<BegunRights>
  /** Runs a task between two groups. */
  task<T>(run: (connection: WritingConnection) => Promise<T>): Promise<T>
  /** Refuses all further calls, waits for those before, and closes the connection behind a last task. */
  close(last: (connection: WritingConnection) => Promise<void>): Promise<void>
}

export interface WriterOptions {
  readonly address: PostgresAddress
  readonly clock: Pick<Clock, 'soon' | 'now' | 'monotonic'>
  readonly member: string
  readonly connection: Connection
  readonly epoch: number
  /** True where this process must be the only one of the store. */
  readonly alone: boolean
  /** True if changes of state are put into the outbox. */
  readonly isLogged: boolean
  readonly pseudonymOf: PseudonymOf
  /** The instant up to which rows have been claimed as a whole: what a change writes up to there is its writer's. */
  readonly claimedUntil: () => number
  /** Called where the registration of this process has ended: no later connection writes again. */
  readonly onFenced?: (() => void) | undefined
}

interface Waiting<T> {
  readonly resolve: (value: T) => void
  readonly reject: (error: unknown) => void
}

interface WaitingChange extends Waiting<CommitResult> {
  /** Its place in the order of the calls. */
  readonly number: number
  readonly sendBefore: number
  readonly encoded: EncodedChange
  readonly touched: ReadonlyMap<string, string>
  readonly notifications: number
  readonly bytes: number
}

/** Calls that may share a group; `task` runs by itself behind them and ends the stretch. */
interface Stretch {
  readonly changes: WaitingChange[]
  readonly rights: WaitingRights[]
  task?: () => Promise<void>
}

interface WaitingRights extends Waiting<BegunRights> {
  readonly versions: readonly object[]
  /** The number of the last change that was called before it. */
  readonly behind: number
}

/**
 * Turns of the event loop between two groups. What the answer of a group sets off, and what has arrived meanwhile, shares
 * the next group; a process at rest passes them in microseconds.
 */
const gatheredTurns = 3
/** Calls in a row that other transactions were in the way of, before it is an error. */
const triesMax = 5
/** The bytes of a row beside its content, about. */
const rowBytes = 1_000
const applied: CommitResult = { applied: true }
const tooLate = new SluiceError(
  'STORE_UNAVAILABLE',
  'The store did not answer in time: nothing was written.',
  {
    retryAfterMs: 1_000,
  },
)

export function createWriter(options: WriterOptions): Writer {
  const { address, clock, member, isLogged, pseudonymOf } = options
  // Where several processes share the record, deliveries are counted with the commit.
  const commitGroup = !options.alone ? 'commit_and_count' : isLogged ? 'commit_logged' : 'commit_group'
  let connection: Connection | undefined = options.connection
  let { epoch } = options
  let isOpen = true
  let isRunning = false
  /** The calls in their order: what may share a group, up to the next task. */
  const stretches: Stretch[] = []
  /** Changes that were called so far. */
  let called = 0
  /** Set while a change waits that has to be sent before an instant. */
  let refusing: NodeJS.Timeout | undefined

  async function connected(): Promise<WritingConnection> {
    if (connection?.isOpen !== true) {
      connection = undefined
      let opened: Connection | undefined
      try {
        opened = await connect(address)
        // First: whoever has taken the place of this process has ended its registration, and holds the lock.
        const [row] = await opened.query<{ epoch: number }>('SELECT open_epoch($1) AS epoch', [member])
        if (!(await lockStore(opened, options.alone)))
          throw new Error('another process has taken the place of this one')
        epoch = row!.epoch
        connection = opened
      } catch (error) {
        await opened?.close()
        if (isFenced(error)) options.onFenced?.()
        throw unreachable(address, error)
      }
    }
    const { query } = connection
    return { epoch, query }
  }

  function schedule(): void {
    if (isRunning) return
    isRunning = true
    clock.soon(() => void run())
  }

  async function run(): Promise<void> {
    for (let next = stretches[0]; next !== undefined; next = stretches[0]) {
      if (next.changes.length + next.rights.length > 0) {
        await writeGroup(next)
        for (let turn = 0; turn < gatheredTurns; turn += 1)
          await new Promise<void>((resolve) => clock.soon(resolve))
      } else {
        stretches.shift()
        await next.task?.()
      }
    }
    isRunning = false
  }

  /** The stretch at the end of the queue, to which a change or a right may still be added. */
  function lastStretch(): Stretch {
    const last = stretches.at(-1)
    if (last !== undefined && last.task === undefined) return last
    const added: Stretch = { changes: [], rights: [] }
    stretches.push(added)
    schedule()
    return added
  }

  async function writeGroup({ changes, rights }: Stretch): Promise<void> {
    const group = takeGroup(changes)
    // A right is asked for behind the changes that were called before it, and not behind later ones: where more arrive than
    // are written, there are always some.
    const left = changes[0]?.number ?? Number.POSITIVE_INFINITY
    const waits = rights.findIndex(({ behind }) => behind >= left)
    await write(group, rights.splice(0, waits === -1 ? rights.length : waits))
  }

  const isLate = ({ sendBefore }: WaitingChange): boolean => clock.monotonic() > sendBefore

  /** Refuses in time what waits behind a call that takes long, as one behind the locks of others: it was not sent. */
  function refuseInTime(): void {
    if (refusing !== undefined) return
    let endsAt = Number.POSITIVE_INFINITY
    for (const { changes } of stretches)
      for (const { sendBefore } of changes) endsAt = Math.min(endsAt, sendBefore)
    if (endsAt === Number.POSITIVE_INFINITY) return
    refusing = setTimeout(
      () => {
        refusing = undefined
        for (const { changes } of stretches) {
          // Very many may wait: each is looked at once, and stays where it is.
          let kept = 0
          for (const each of changes) {
            if (isLate(each)) {
              each.reject(tooLate)
              continue
            }
            changes[kept] = each
            kept += 1
          }
          changes.length = kept
        }
        refuseInTime()
      },
      Math.max(1, endsAt - clock.monotonic() + 1),
    )
  }

  async function write(group: readonly WaitingChange[], asked: readonly WaitingRights[]): Promise<void> {
    const isSent = { yes: false }
    try {
      const { conflicts, ...rights } = await call(group, asked, isSent)
      for (const [index, { resolve }] of group.entries()) {
        const own = conflicts.filter(({ c }) => c === index).map(({ kind, key }) => ({ kind, key }))
        resolve(own.length === 0 ? applied : { applied: false, conflicts: own })
      }
      for (const { resolve } of asked) resolve(rights)
    } catch (error) {
      if (error === tooLate) {
        const { true: late = [], false: timely = [] } = Object.groupBy(group, (each) => `${isLate(each)}`)
        for (const { reject } of late) reject(tooLate)
        if (timely.length + asked.length > 0) await write(timely, asked)
        return
      }
      if (isRefusedValue(error) && group.length + asked.length > 1) {
        // One of them is to blame, and the others need not suffer.
        for (const each of group) await write([each], [])
        if (asked.length > 0) await write([], asked)
        return
      }
      const fault = isSent.yes ? storeFault(error, address) : error
      if (isFenced(error))
        for (const { resolve } of group)
          resolve({ applied: false, conflicts: [{ kind: 'member', key: member }] })
      else for (const { reject } of group) reject(fault)
      for (const { reject } of asked) reject(fault)
    }
  }

  async function call(
    group: readonly WaitingChange[],
    asked: readonly WaitingRights[],
    isSent: { yes: boolean },
  ): Promise<BegunRights & { readonly conflicts: readonly (Conflict & { readonly c: number })[] }> {
    const own = encodeGroup(group.map(({ encoded }) => encoded))
    const versions = JSON.stringify(asked.flatMap((each) => each.versions))
    for (let tries = 1; ; tries += 1) {
      const { epoch, query } = await connected()
      if (group.some(isLate)) throw tooLate
      const claimed = Math.max(options.claimedUntil(), Number.MIN_SAFE_INTEGER)
      isSent.yes = true
      const askedAt = clock.monotonic()
      try {
        const commits = group.length > 0 ? `to_json(${commitGroup}($1, $2, $3, $4, $7))` : "'[]'::json"
        const begins = asked.length > 0 ? 'begin_sending($1, $2, $5, $6)' : "'[]'::json"
        // A server that is registered behind this snapshot is filled when rights from before it have ended.
        const servers =
          asked.length > 0 && !options.alone
            ? '(SELECT json_object_agg(node, number) FROM limiter_server)'
            : 'NULL::json'
        // A hash of the holds themselves, so that no counter is written: there are nearly always none.
        const holds =
          asked.length > 0 && !options.alone
            ? '(SELECT coalesce(sum(hashtextextended(body::text, 0)), 0)::text FROM hold)'
            : 'NULL::text'
        const [row] = await query<{
          conflicts: readonly (Conflict & { readonly c: number })[]
          begun: readonly (readonly [string, number])[]
          servers: Readonly<Record<string, number>> | null
          holds: string | null
        }>(
          `SELECT ${commits} AS conflicts, ${begins} AS begun, ${servers} AS servers, ${holds} AS holds
            FROM (VALUES ($1::bigint, $2::int, $3::bigint, $4::json, $5::bigint, $6::json, $7::text)) v`,
          [member, epoch, claimed, own.json, clock.now(), versions, own.texts],
          { name: `write ${group.length > 0} ${asked.length > 0}` },
        )
        return {
          conflicts: row!.conflicts,
          begun: new Map(row!.begun),
          servers: new Map(Object.entries(row!.servers ?? {})),
          holds: row!.holds ?? undefined,
          askedAt,
        }
      } catch (error) {
        // It was rolled back as a whole. The next try finds on record what was in the way.
        if (!isInTheWay(error) || tries === triesMax) throw error
      }
    }
  }

  function task<T>(run: (connection: WritingConnection) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      lastStretch().task = async () => {
        try {
          const own = await connected()
          resolve(
            await run(own).catch((error) => {
              throw storeFault(error, address)
            }),
          )
        } catch (error) {
          reject(error)
        }
      }
    })
  }

  return {
    commit(change) {
      if (!isOpen) return Promise.reject(closed(address))
      const encoded = encodeChange(change, isLogged, pseudonymOf)
      const { accept = [], moves = [], jobs = [], contents = [] } = change
      const carried = [...accept, ...contents].reduce((sum, { bytes = 0 }) => sum + bytes, 0)
      const work = jobs.reduce((sum, write) => sum + (write.kind === 'open' ? (write.job.bytes ?? 0) : 0), 0)
      const notifications = accept.length + moves.length
      return new Promise((resolve, reject) => {
        called += 1
        lastStretch().changes.push({
          number: called,
          encoded,
          touched: touchedBy(change),
          notifications,
          sendBefore: change.sendBefore ?? Number.POSITIVE_INFINITY,
          bytes: carried + work + notifications * rowBytes,
          resolve,
          reject,
        })
        if (change.sendBefore !== undefined) refuseInTime()
      })
    },
    begin(asked) {
      if (!isOpen) return Promise.reject(closed(address))
      return new Promise((resolve, reject) => {
        const versions = asked.map(({ notification, pseudonym }) => ({
          ...versionOf(notification),
          pseudonym,
        }))
        lastStretch().rights.push({ versions, behind: called, resolve, reject })
      })
    },
    task: (run) => (isOpen ? task(run) : Promise.reject(closed(address))),
    async close(last) {
      if (!isOpen) return
      isOpen = false
      try {
        await task(last)
      } finally {
        await connection?.close()
        connection = undefined
        clearTimeout(refusing)
      }
    },
  }
}
