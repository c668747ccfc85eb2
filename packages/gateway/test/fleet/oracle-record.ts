/**
 * Follows the record, write by write: no final state is left, no acceptance passes a bound of its tenant, one key leads to
 * one acceptance, and what was delivered is not sent again.
 */
import type { Job, Notification } from '../../src/model.ts'
import type { Change } from '../../src/ports.ts'
import type { Watched } from './oracle.ts'
import type { Call } from './sim-provider.ts'

/** The states that no notification leaves. */
const finals = new Set(['delivered', 'suppressed', 'merged', 'failed', 'cancelled', 'expired'])

export const hasEnded = ({ status }: Pick<Notification, 'status'>): boolean => finals.has(status)

export interface WatchedRecord {
  readonly rows: ReadonlyMap<string, Notification>
  readonly jobs: ReadonlyMap<string, Job>
  /** Ids of digests and of contents that several notifications share. */
  readonly others: ReadonlySet<string>
}

type Bound = 'queue' | 'waiting' | undefined

/** The bound of a tenant in which a notification counts, by its state on record. */
function boundOf({ status, decision }: Notification): Bound {
  if (status === 'queued' || status === 'sending' || status === 'dead') return 'queue'
  if (status === 'digesting') return 'waiting'
  if (status !== 'scheduled') return undefined
  return decision.reason === 'tenant_limit' || decision.reason === 'module_limit' ? 'queue' : 'waiting'
}

/**
 * A move into a bound asks for no room. It counts there when its commit is answered, and other processes hear of it within
 * a second: after this long at most, ms.
 */
const movedSlackMs = 12_000

export function watchRecord({ world, settings, service, record }: Watched): WatchedRecord {
  const rows = new Map<string, Notification>()
  const jobs = new Map<string, Job>()
  const others = new Set<string>()
  const counts = new Map<string, number>()
  /** Instants since which each bound has been full without a break, for all that every process had to know. */
  const fullSince = new Map<string, number>()
  /** Notifications that have moved into each bound, with the instant: not every process may have heard of the last ones. */
  const movedIn = new Map<string, Map<string, number>>()
  const keys = new Set<string>()
  const texts = new Set<string>()

  function count(row: Notification, by: 1 | -1): void {
    const bound = boundOf(row)
    if (bound === undefined) return
    const key = `${row.tenant} ${bound}`
    counts.set(key, (counts.get(key) ?? 0) + by)
    if (knownIn(key) < maxOf(bound)) fullSince.delete(key)
    else if (!fullSince.has(key)) fullSince.set(key, world.now())
  }

  function noteMovedIn(key: string, id: string): void {
    movedIn.set(key, (movedIn.get(key) ?? new Map<string, number>()).set(id, world.now()))
  }

  /** Counts a notification that has moved, in the bound of its new state. */
  function countMoved(before: Notification, row: Notification): void {
    const { id, tenant } = row
    const [from, to] = [before, row].map((each) => `${tenant} ${boundOf(each)}`) as [string, string]
    if (from !== to) {
      movedIn.get(from)?.delete(id)
      noteMovedIn(to, id)
    }
    count(before, -1)
    count(row, 1)
  }

  /** Returns how many every process had to know of in a bound. */
  function knownIn(key: string): number {
    const recent = [...(movedIn.get(key)?.values() ?? [])].filter((at) => at > world.now() - movedSlackMs)
    return (counts.get(key) ?? 0) - recent.length
  }

  const maxOf = (bound: Bound): number => (bound === 'queue' ? settings.queueMax : settings.waitingMax)

  /** No notification is accepted whose tenant had no room from its request to its acceptance. */
  function checkBound(row: Notification): void {
    const bound = boundOf(row)
    if (bound === undefined || row.job !== undefined || row.priority === 'critical') return
    const key = `${row.tenant} ${bound}`
    // Where nobody in a bound has moved there, all of them have asked for room.
    if (
      settings.isRoomExact === true &&
      (movedIn.get(key)?.size ?? 0) === 0 &&
      (counts.get(key) ?? 0) > maxOf(bound)
    ) {
      world.violate(
        '7 bound',
        `${counts.get(key)} in the bound ${bound} of ${row.tenant}, of ${maxOf(bound)}: ${row.id}`,
      )
      return
    }
    const since = fullSince.get(key)
    const now = counts.get(key) ?? 0
    if (since !== undefined && since < row.createdAt - movedSlackMs && now > maxOf(bound))
      world.violate('7 bound', `${now} in the bound ${bound} of ${row.tenant}, of ${maxOf(bound)}: ${row.id}`)
  }

  /** Applications give each message a text of its own, but for those that they repeat on purpose. */
  function checkText(row: Notification): void {
    const text = row.content?.subject ?? row.data?.text
    if (typeof text !== 'string' || !text.startsWith('operation')) return
    const name = `${row.tenant} ${text} ${row.to.id}`
    if (texts.has(name)) world.violate('10 acceptance', `${name} was accepted twice: ${row.id}`)
    texts.add(name)
  }

  function follow({ accept = [], moves = [], answer, jobs: jobWrites = [], ...change }: Change): void {
    for (const { digest } of change.digests ?? []) others.add(digest.id)
    for (const { id } of change.contents ?? []) others.add(id)
    for (const row of accept) {
      if (rows.has(row.id)) world.violate('3 state', `${row.id} was accepted twice`)
      rows.set(row.id, row)
      // The message of a digest asks for no room, as what moves: seed 265,500 of four gateways.
      if (row.actors !== undefined) noteMovedIn(`${row.tenant} ${boundOf(row)}`, row.id)
      count(row, 1)
      if (row.actors === undefined) checkText(row)
    }
    for (const row of accept) if (row.actors === undefined) checkBound(row)
    for (const { before, after } of moves) {
      const known = rows.get(after.id)
      if (known === undefined) {
        world.violate('3 state', `${after.id} moved and was never accepted`)
        continue
      }
      if (hasEnded(known)) world.violate('3 state', `${after.id} left ${known.status} for ${after.status}`)
      if (known.status !== before.status)
        world.violate('3 state', `${after.id} moved from ${before.status}, and is ${known.status}`)
      const row = { ...known, ...after }
      rows.set(after.id, row)
      countMoved(known, row)
    }
    if (answer !== undefined) {
      const key = [answer.tenant, answer.module, answer.path, answer.key].join('/')
      if (keys.has(key)) world.violate('10 key', `${key} has two answers`)
      keys.add(key)
    }
    for (const write of jobWrites) {
      const job = write.kind === 'open' ? write.job : write.after
      jobs.set(job.id, job)
    }
  }

  record.observers.add(({ method, args }) => {
    if (method !== 'commit') return
    const change = args[0] as Change
    world.trace({
      kind: 'commit',
      accept: change.accept?.map(({ id, status, dueAt }) => [id, status, dueAt - world.start]),
      moves: change.moves?.map(({ after }) => [after.id, after.status, after.dueAt - world.start]),
      digests: change.digests?.map(({ kind, digest }) => [kind, digest.id]),
      jobs: change.jobs?.map((write) => [write.kind, (write.kind === 'open' ? write.job : write.after).id]),
      recipients: change.recipients?.map(({ id }) => id),
      accounts: change.accounts?.map(({ account }) => account),
    })
    follow(change)
  })

  /** The last call of each notification that its service carried. */
  const delivered = new Map<string, Call>()
  service.observers.add((call, what) => {
    if (what !== 'written') return
    const { id } = call.message
    const row = rows.get(id)
    if (row === undefined) world.violate('9 double', `${id} was sent and is not on record`)
    else if (hasEnded(row)) world.violate('9 double', `${id} was sent when it was ${row.status}`)
    const before = delivered.get(id)
    // Only the end of the process, before the settlement was on record, excuses another call.
    if (before?.outcome === 'delivered' && before.process === call.process)
      world.violate('9 double', `${id} was delivered, and sent again by the same process`)
    if (call.fate === 'deliver') delivered.set(id, call)
  })

  return { rows, jobs, others }
}
