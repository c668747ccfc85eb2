/**
 * Forms groups of changes that are written in one call. The function of the store compares all changes of a group and
 * then writes them, so a group holds only changes that touch different records, or that agree on what they do: those
 * that join the same digest. The others wait for the next group, in the order of their arrival. Pure.
 */
import type { Change } from '../../ports.ts'

/** Records by name. Of two changes that name the same record, both may be in a group only with the same use of it. */
export type Touched = ReadonlyMap<string, string>

const alone = ''
/** A use that any number of changes of a group may have. */
const counted = 'counted'

export function touchedBy(change: Change): Touched {
  const touched = new Map<string, string>()
  const touch = (key: string, use = alone): void => {
    const known = touched.get(key)
    touched.set(key, known === undefined || known === use ? use : alone)
  }
  for (const { id, status, digestId } of change.accept ?? []) {
    touch(`n ${id}`)
    if (status === 'digesting') touch(`i ${digestId}`, counted)
  }
  for (const { before, after } of change.moves ?? []) {
    touch(`n ${before.id}`)
    if (before.status === 'digesting') touch(`i ${before.digestId}`, counted)
    if (after.status === 'digesting') touch(`i ${after.digestId}`, counted)
  }
  for (const { kind, digest } of change.digests ?? []) {
    const { id, tenant, recipient, channel, category, name } = digest
    const joins = kind === 'open' || kind === 'join'
    touch(`g ${[tenant, recipient, channel, category, name].join('\n')}`, joins ? id : alone)
    touch(`i ${id}`, joins ? counted : alone)
  }
  for (const { tenant, id } of change.recipients ?? []) touch(`r ${tenant}\n${id}`)
  for (const { tenant, recipient } of change.decidedFor ?? []) touch(`r ${tenant}\n${recipient}`, counted)
  for (const write of change.jobs ?? []) touch(`j ${write.kind === 'open' ? write.job.id : write.after.id}`)
  for (const { channel, provider, account } of change.accounts ?? [])
    touch(`a ${channel}\n${provider}\n${account}`)
  for (const write of change.holds ?? []) touch(`h ${write.kind === 'put' ? write.hold.name : write.name}`)
  for (const { id } of change.contents ?? []) touch(`c ${id}`)
  if (change.answer !== undefined) {
    const { tenant, module, method, path, key } = change.answer
    touch(`k ${[tenant, module, method, path, key].join('\n')}`)
  }
  return touched
}

/** The number of notifications and the bytes of a group at most; a larger change goes alone. */
const notificationsMax = 500
const bytesMax = 2 ** 21

export interface Groupable {
  readonly touched: Touched
  readonly notifications: number
  readonly bytes: number
}

/** Takes the next group from the front of the queue; what it leaves keeps its order. */
export function takeGroup<T extends Groupable>(queue: T[]): T[] {
  const group: T[] = []
  const left: T[] = []
  const taken = new Map<string, string>()
  const waiting = new Map<string, string>()
  let notifications = 0
  let bytes = 0
  let next = 0
  for (; next < queue.length; next += 1) {
    const entry = queue[next]!
    const isFull = notifications + entry.notifications > notificationsMax || bytes + entry.bytes > bytesMax
    if (isFull && group.length > 0) break
    if (clash(taken, entry.touched) || clash(waiting, entry.touched)) {
      left.push(entry)
      add(waiting, entry.touched)
      continue
    }
    group.push(entry)
    add(taken, entry.touched)
    notifications += entry.notifications
    bytes += entry.bytes
  }
  queue.splice(0, next, ...left)
  return group
}

function clash(known: Touched, touched: Touched): boolean {
  for (const [key, use] of touched) {
    const other = known.get(key)
    if (other !== undefined && (other === alone || use === alone || other !== use)) return true
  }
  return false
}

function add(known: Map<string, string>, touched: Touched): void {
  for (const [key, use] of touched) known.set(key, known.has(key) && known.get(key) !== use ? alone : use)
}
