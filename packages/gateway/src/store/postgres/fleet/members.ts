/**
 * The processes of a fleet over PostgreSQL. Each one increments its beat on a connection of its own; who sees the same
 * beat of another process for long enough, by its own monotonic clock and its own looks, declares that process dead. No
 * clock of the server decides, and no connection that was lost: a process that cannot look judges nobody.
 */
import { StoreAwayError } from '../../../errors.ts'
import type { Channel } from '../../../model.ts'
import type { Members, Role } from '../../../ports/fleet.ts'
import type { Clock } from '../../../ports.ts'
import type { PostgresAddress } from '../address.ts'
import { type Connection, connect } from '../connection.ts'

/** A connection to the members on record. */
export interface MemberRecord {
  readonly isOpen: boolean
  /**
   * Beats for a member with these policies, of which the first is in force and the others are about to be, gives it the
   * wanted roles that no living member has, and answers the other members.
   */
  beat(member: string, wanted: readonly Role[], policies: readonly string[]): Promise<BeatAnswer>
  /** Declares a member dead that has not beaten since; false where it has. */
  declareDead(member: string, beat: number): Promise<boolean>
  /** Ends the registration of a dead member once nothing is held by it. */
  settle(member: string): Promise<void>
  /** Gives the roles of a member to the others. */
  leave(member: string): Promise<void>
  close(): Promise<void>
}

export interface MembersOptions {
  /** Opens a connection, at the start and whenever the one before was lost. */
  readonly connect: () => Promise<MemberRecord>
  /** The id under which the store of this process is registered. */
  readonly member: string
  /** The version of the policy in force. */
  readonly policy: () => string
  readonly clock: Pick<Clock, 'monotonic'>
  /** Called once when the others have declared this process dead: its store takes nothing more from it. */
  readonly onDeclaredDead: () => void
  readonly onError: (what: string, error: unknown) => void
  /** Time between two beats, ms. @defaultValue 2000 */
  readonly beatMs?: number | undefined
}

/** Looks that must have shown the same beat, over as many beats at least: 12 s. */
const silentLooks = 6
/** A process whose last answered beat was sent so many beats ago holds no role: earlier than it can be declared dead. */
const rolesForBeats = 4
/** A pause of this process for so many beats begins the counting anew: the others may have been stopped with it. */
const pauseBeats = 3
/**
 * A look begins to judge another member for so many beats only; the rest comes with the next look. One judgement waits up to
 * a beat for a row that another transaction has locked (`lockMs`).
 */
const judgingBeats = 0.5

/** Another process as the record shows it. `state`: 1 alive, 2 leaving, 3 dead. */
interface OtherMember {
  readonly id: string
  readonly beat: number
  readonly state: 1 | 2 | 3
  /** Channels that it serves; null where it did not say: it may serve any. */
  readonly channels: readonly Channel[] | null
}

export interface BeatAnswer {
  readonly living: boolean
  readonly roles: readonly Role[]
  readonly members: readonly OtherMember[]
  readonly policiesLeft: string
}

/** The looks that have shown the same beat of a process. */
interface Silence {
  readonly beat: number
  /** `clock.monotonic` when the first of them was answered. */
  readonly since: number
  looks: number
  /** True if it was alive at some look of this process. */
  readonly hasBeaten: boolean
}

/** Joins the others; returns when the first beat has told who they are. */
export async function openMembers(options: MembersOptions): Promise<Members> {
  const { connect, member, policy, clock, onDeclaredDead, onError, beatMs = 2_000 } = options
  const listeners = new Set<Parameters<Members['onDeath']>[0]>()
  /** Roles that were asked for: as many as there are kinds of chores. */
  const wanted = new Set<Role>()
  let held: ReadonlySet<Role> = new Set()
  let rolesUntil = Number.NEGATIVE_INFINITY
  /** The other processes of the last look that had not ended, and the silence of each. */
  let silences = new Map<string, Silence>()
  /** When those were judged last that have died or are silent, as `clock.monotonic` of that look. */
  const judgedAt = new Map<string, number>()
  /** The others that were alive at the last look. */
  let alive: readonly OtherMember[] = []
  let policiesLeft = ''
  /** The version of the policy that comes into force next, or has. */
  let announced: string | undefined
  let isOpen = true
  let lookedAt: number | undefined
  let connection: MemberRecord | undefined
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<unknown> = Promise.resolve()

  async function connected(): Promise<MemberRecord> {
    if (connection?.isOpen === true) return connection
    // A look on the lost connection says nothing of the time since.
    forgetBeats()
    lookedAt = undefined
    await connection?.close()
    connection = await connect()
    return connection
  }

  /** Nothing is known of the present beats of the others. */
  function forgetBeats(): void {
    for (const [id, { hasBeaten }] of silences)
      silences.set(id, { beat: Number.NaN, since: Number.POSITIVE_INFINITY, looks: 0, hasBeaten })
  }

  /** Works behind the work on the record that is under way. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = looking.then(work)
    looking = done.catch(() => {})
    return done
  }

  const look = (): Promise<void> =>
    inTurn(async () => {
      const seen = await beat()
      if (seen !== undefined) await judge(seen.members, seen.sentAt)
    })

  /** Returns the others as they are now; undefined where the record takes nothing more of this process. */
  async function beat(): Promise<
    { readonly members: readonly OtherMember[]; readonly sentAt: number } | undefined
  > {
    if (!isOpen) return undefined
    const record = await connected()
    const sentAt = clock.monotonic()
    if (lookedAt !== undefined && sentAt - lookedAt > pauseBeats * beatMs) forgetBeats()
    lookedAt = sentAt
    const policies = [...new Set([policy(), announced ?? policy()])]
    const { living, roles, members, ...answer } = await record.beat(member, [...wanted], policies)
    if (!living) {
      die()
      return undefined
    }
    policiesLeft = answer.policiesLeft
    held = new Set(roles)
    rolesUntil = sentAt + rolesForBeats * beatMs
    alive = members.filter(({ state }) => state === 1)
    return { members, sentAt }
  }

  async function judge(members: readonly OtherMember[], sentAt: number): Promise<void> {
    const seen = new Map<string, Silence>()
    const gone = [...silences.keys()].filter((id) => members.every((other) => other.id !== id))
    const unheard: string[] = []
    const judged: OtherMember[] = []
    for (const other of members) {
      const { id, beat, state } = other
      const before = silences.get(id)
      const hasBeaten = before !== undefined && (before.hasBeaten || before.beat < beat)
      const silence = before?.beat === beat ? before : { beat, since: clock.monotonic(), looks: 0, hasBeaten }
      silence.looks += 1
      seen.set(id, silence)
      const isSilent = silence.looks >= silentLooks && sentAt - silence.since >= silentLooks * beatMs
      if (state === 3 || isSilent) judged.push(other)
    }
    const failures: unknown[] = []
    const orderOf = ({ id }: OtherMember): number => judgedAt.get(id) ?? Number.NEGATIVE_INFINITY
    judged.sort((a, b) => orderOf(a) - orderOf(b))
    for (const { id, beat, state } of judged) {
      // The rest comes first at the next look: a look that is long begins the counting anew.
      if (clock.monotonic() - sentAt > judgingBeats * beatMs) break
      judgedAt.set(id, sentAt)
      try {
        const record = await connected()
        // Told with each look until nothing is left of it: a takeover passes over rows that a statement has locked.
        const isDead = state === 3 || (await record.declareDead(id, beat))
        if (isDead) gone.push(id)
        if (isDead && !seen.get(id)!.hasBeaten) unheard.push(id)
        if (state === 3) await record.settle(id)
      } catch (error) {
        // The others are judged all the same.
        failures.push(error)
      }
    }
    for (const id of judgedAt.keys()) if (!seen.has(id)) judgedAt.delete(id)
    silences = seen
    if (gone.length > 0) for (const listener of listeners) listener(gone, unheard)
    if (failures.length > 0) throw failures[0]
  }

  function die(): void {
    if (!isOpen) return
    isOpen = false
    onDeclaredDead()
  }

  function lookAgain(): void {
    if (!isOpen) return
    timer = setTimeout(() => {
      void look()
        .catch((error: unknown) => onError('look at the other processes', error))
        .finally(lookAgain)
    }, beatMs)
    timer.unref()
  }

  try {
    await look()
  } catch (error) {
    await connection?.close()
    throw error
  }
  lookAgain()

  return {
    id: member,
    count: () => 1 + alive.length,
    // One that does not say may serve any.
    othersServe: (channel) => alive.some(({ channels }) => channels?.includes(channel) ?? true),
    policiesLeft: () => policiesLeft,
    async announcePolicy(version) {
      announced = version
      try {
        // A fault of the others is none of the policy: they are judged at the next look.
        if ((await inTurn(beat)) === undefined) throw new Error('this process has ended')
      } catch (cause) {
        announced = undefined
        const way = 'Reload again when PostgreSQL answers.'
        throw new StoreAwayError(
          `The other gateways cannot be told of the new policy, so it does not come into force. ${way}`,
          { cause },
        )
      }
    },
    holds(role) {
      wanted.add(role)
      return isOpen && clock.monotonic() < rolesUntil && held.has(role)
    },
    onDeath(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      const wasOpen = isOpen
      isOpen = false
      clearTimeout(timer)
      await looking
      // Its roles are free at once. Without a word the others would wait until they found it silent.
      if (wasOpen) await connection?.leave(member).catch(() => {})
      await connection?.close()
    },
  }
}

export interface PostgresMembersOptions extends Omit<MembersOptions, 'connect'> {
  readonly address: PostgresAddress
  /** Called when this process has declared another one dead, with its id and its name: host and process id. */
  readonly onOtherDead?: ((member: string, name: string) => void) | undefined
}

/** Joins the processes of a record on PostgreSQL. */
export function openPostgresMembers({
  address,
  onOtherDead = () => {},
  ...options
}: PostgresMembersOptions): Promise<Members> {
  return openMembers({ ...options, connect: () => connectMembers(address, onOtherDead) })
}

async function connectMembers(
  address: PostgresAddress,
  onOtherDead: (member: string, name: string) => void,
): Promise<MemberRecord> {
  const connection: Connection = await connect(address)
  const { query } = connection
  return {
    get isOpen() {
      return connection.isOpen
    },
    async beat(member, wanted, policies) {
      const named = { name: 'beat' }
      const [row] = await query<{ answer: BeatAnswer }>(
        'SELECT beat($1, $2, $3) AS answer',
        [member, wanted, policies],
        named,
      )
      return row!.answer
    },
    async declareDead(member, beat) {
      const [row] = await query<{ dead: boolean; name: string }>(
        'SELECT declare_silent_dead($1, $2) AS dead, (SELECT name FROM member WHERE id = $1) AS name',
        [member, beat],
      )
      const { dead, name } = row!
      if (dead) onOtherDead(member, name)
      return dead
    },
    async settle(member) {
      await query('SELECT settle_dead($1)', [member])
    },
    async leave(member) {
      await query('SELECT leave($1)', [member])
    },
    close: () => connection.close(),
  }
}
