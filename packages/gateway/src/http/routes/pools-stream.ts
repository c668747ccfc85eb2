/**
 * Pools as they move: an event `accounts` each second with the pools and accounts that have changed, and of these the
 * fields that have changed. A reader first gets all of them; one that comes back, those that changed meanwhile.
 */
import type { Clock } from '../../ports.ts'
import type { PoolsView } from '../../stages.ts'
import { iso } from '../answer.ts'
import { eventText } from '../event-stream.ts'
import { poolAnswer } from '../pool-answer.ts'
import { basePath } from '../route.ts'
import { changesOf, createSecondStream, lastSecondOf, type SecondStream } from '../second-stream.ts'
import { aheadOf } from '../wall-time.ts'

export interface PoolsStreamOptions {
  readonly pools: Pick<PoolsView, 'details' | 'refresh'>
  readonly clock: Clock
  /** Streams of all operators at most; one more is refused. @defaultValue 50 */
  readonly readersMax?: number
}

type Fields = Readonly<Record<string, unknown>>

/** A pool or an account as its readers know it. */
interface Row {
  /** The fields that name it. */
  readonly key: Fields
  fields: Fields
  /** The second of its last change, epoch seconds. */
  changedIn: number
}

type Kind = 'pools' | 'accounts'

/** Accounts of one event at most: some 350 kB where all fields of each have changed. The others follow a second later. */
const accountsMax = 500

export function createPoolsStream({ pools, clock, readersMax = 50 }: PoolsStreamOptions): SecondStream {
  /** The rows as they were sent last, by key. As many rows as the configuration has pools and accounts. */
  let rows: Record<Kind, Map<string, Row>> = { pools: new Map(), accounts: new Map() }
  /** The second since which changes are followed: the answer to an older id is everything. */
  let followedSince = 0
  let second = 0
  /** The account with which the next event begins, so that each has its turn where more than that have changed. */
  let begin = 0

  /** Reads all rows as they are now, each with its key. */
  function read(): Record<Kind, readonly Pick<Row, 'key' | 'fields'>[]> {
    const aheadMs = aheadOf(clock)
    // The calls of other processes are those of the reading before.
    void pools.refresh?.()
    const answers = pools.details().map((pool) => poolAnswer(pool, aheadMs))
    return {
      pools: answers.map(({ channel, provider, accounts: _, ...fields }) => ({
        key: { channel, provider },
        fields,
      })),
      accounts: answers.flatMap(({ channel, accounts }) =>
        accounts.map(({ id, ...fields }) => ({ key: { channel, id }, fields })),
      ),
    }
  }

  /** Takes over the changes of one kind, at most so many, and answers them. */
  function changesIn(
    kind: Kind,
    all: readonly Pick<Row, 'key' | 'fields'>[],
    max: number,
  ): readonly Fields[] {
    const found: Fields[] = []
    const first = kind === 'accounts' ? begin : 0
    for (let index = 0; index < all.length && found.length < max; index += 1) {
      const { key, fields } = all[(first + index) % all.length]!
      const name = JSON.stringify(key)
      const row = rows[kind].get(name)
      const changes = changesOf(row?.fields ?? {}, fields)
      if (Object.keys(changes).length === 0) continue
      found.push({ ...key, ...changes })
      if (row === undefined) rows[kind].set(name, { key, fields, changedIn: second })
      else Object.assign(row, { fields, changedIn: second })
      if (kind === 'accounts' && found.length === max) begin = (first + index + 1) % all.length
    }
    return found
  }

  /** Takes over what has changed until now, and answers it. */
  function changes(accountsAtMost: number): Record<Kind, readonly Fields[]> {
    const now = read()
    return {
      pools: changesIn('pools', now.pools, Number.POSITIVE_INFINITY),
      accounts: changesIn('accounts', now.accounts, accountsAtMost),
    }
  }

  /** Answers the rows that changed after a second, whole. */
  const since = (kind: Kind, after: number): readonly Fields[] =>
    [...rows[kind].values()]
      .filter(({ changedIn }) => changedIn > after)
      .map(({ key, fields }) => ({ ...key, ...fields }))

  const textOf = (data: Record<Kind, readonly Fields[]>): string =>
    eventText('accounts', { at: iso(second * 1_000 + aheadOf(clock)), ...data }, second)

  return createSecondStream({
    route: {
      path: `${basePath}/pools/stream`,
      operation: 'streamPools',
      summary: 'Pools and accounts as they change, an event each second',
      details:
        'The first event has all pools and accounts, each following one those that have changed, with `channel` and `provider` or `id` and the fields that have changed; at most 500 accounts a second. Each event has the epoch second as `id`; with `Last-Event-ID` the first event has those that changed since, as long as another reader stayed. At most 50 streams',
      answers: { 200: { description: 'Server-sent events named `accounts`', type: 'text/event-stream' } },
    },
    of: 'the pools',
    clock,
    readersMax,
    begin() {
      second = lastSecondOf(clock)
      followedSince = second
      rows = { pools: new Map(), accounts: new Map() }
      changes(Number.POSITIVE_INFINITY)
    },
    welcome(after) {
      const from = after === undefined || after < followedSince ? Number.NEGATIVE_INFINITY : after
      return textOf({ pools: since('pools', from), accounts: since('accounts', from) })
    },
    tick() {
      // A timer may fire a moment early: an id that a reader has seen already would hide these changes from it.
      second = Math.max(second + 1, lastSecondOf(clock))
      return textOf(changes(accountsMax))
    },
  })
}
