/**
 * The accounts of a fleet in Redis (ports/account-slots.ts): a pool is one hash, a question one call of a script. The script
 * knows the roster of a process by its name; it asks for the roster where it does not.
 */
import type {
  AccountSlots,
  HeardVerdict,
  SlotAnswer,
  SlotQuestion,
  SlotVerdict,
} from '../../../ports/account-slots.ts'
import { unavailable } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'
import { accountsScript } from './scripts.ts'

const shortages = ['none', 'out', 'window', 'concurrency', 'record', 'share'] as const

/** A grant is one number: calls under way in this unit, below it the tokens, a bit for a probe and the shortage. */
const busyUnit = 2 ** 18

type Row = readonly number[]
/** An empty table of Lua is an object in JSON. */
type Rows<T> = readonly T[] | Readonly<Record<string, never>>
type Written = readonly [
  slot: number,
  tick: number,
  bornAt: number,
  lastVerdict: number,
  lastResults: number,
  isNewMember: number,
  verdicts: Rows<readonly [number, number, number, number, number, detail: string]>,
  results: Rows<string>,
  uses: Rows<Row>,
  long: Rows<Row>,
]

export function createRedisAccountSlots({ redis }: { readonly redis: RedisState }): AccountSlots {
  return {
    async ask(question) {
      const key = { subject: `a/${question.pool}`, name: '' }
      let reply = await redis.ask(accountsScript, key, ['ask', write(question, false)])
      if (reply === '?') reply = await redis.ask(accountsScript, key, ['ask', write(question, true)])
      if (!Array.isArray(reply)) throw unavailable(question.pool, String(reply))
      const [written, grants] = reply as unknown as readonly [string, readonly number[]]
      return read(JSON.parse(written) as Written, grants, question.slotMs)
    },
  }
}

function write(question: SlotQuestion, withRoster: boolean): string {
  const { roster, asks, verdicts, remembered, untold, blocks, abandoned, probing, covered, fills } = question
  const counted = (rows: readonly (readonly number[])[]) =>
    rows.length === 0 ? undefined : rows.map(([account, ...rest]) => [account! + 1, ...rest])
  const more = asks.flatMap(({ kept, late, back }, index) =>
    kept === 0 && late === 0 && back.length === 0
      ? []
      : [index + 1, kept, late, back.length === 0 ? 0 : back],
  )
  return JSON.stringify({
    d: question.slotMs,
    m: question.member,
    k: question.silentMs,
    w: question.coldMs,
    p: question.probeMs,
    o: roster.id,
    O: withRoster
      ? {
          names: roster.names,
          concurrency: onceIfEqual(roster.concurrency),
          rules: roster.rules.map(({ windowMs, width, run, max }) => [
            windowMs,
            width,
            run,
            onceIfEqual(max),
          ]),
        }
      : undefined,
    n: question.bornAt,
    v: question.lastVerdict,
    s: question.lastResults,
    r: question.results,
    f: question.withUses ? 1 : undefined,
    q: asks.flatMap(({ account, want, busy }) => [account + 1, want, busy]),
    e: more.length === 0 ? undefined : more,
    u: verdicts.map(rowOf),
    z: remembered.length === 0 ? undefined : remembered.map(rowOf),
    t: untold.length === 0 ? undefined : untold.map(rowOf),
    j: question.isJudge ? 1 : undefined,
    b: counted(blocks),
    x: abandoned.map((account) => account + 1),
    y: probing.length === 0 ? undefined : probing.map((account) => account + 1),
    c: counted(covered),
    F: counted(fills),
  })
}

const rowOf = ({ account, openUntil, coolDownMs, concurrency, share, risesFrom }: SlotVerdict) =>
  [account + 1, openUntil, concurrency, share, risesFrom, String(coolDownMs)] as const

/** Most pools have accounts of one kind. */
const onceIfEqual = (values: readonly number[]): readonly number[] | number =>
  values.length > 0 && values.every((value) => value === values[0]) ? values[0]! : values

const listOf = <T>(rows: Rows<T>): readonly T[] => (Array.isArray(rows) ? rows : [])

function read(written: Written, grants: readonly number[], slotMs: number): SlotAnswer {
  const [slot, tick, bornAt, lastVerdict, lastResults, isNewMember, verdicts, results, uses, long] = written
  return {
    slot,
    restMs: (slot + 1) * slotMs - tick,
    bornAt,
    lastVerdict,
    lastResults,
    isNewMember: isNewMember === 1,
    grants: grants.map((grant) => ({
      tokens: Math.floor((grant % busyUnit) / 16),
      isProbe: (grant & 8) !== 0,
      shortage: shortages[grant & 7]!,
      busy: Math.floor(grant / busyUnit),
    })),
    verdicts: listOf(verdicts).map(
      ([account, blockedUntil, openUntil, probedUntil, concurrency, detail]): HeardVerdict => ({
        account: account - 1,
        blockedUntil,
        openUntil,
        probedUntil,
        // A block alone has no detail.
        concurrency: detail === '' ? undefined : concurrency,
        coolDownMs: Number(detail),
      }),
    ),
    results: listOf(results),
    uses: listOf(uses).map(listOf<number>),
    long: listOf(long).map(([account, total, covered, isFilled, unused]) => ({
      account: account! - 1,
      total: total!,
      covered: covered!,
      isFilled: isFilled === 1,
      unused: unused!,
    })),
  }
}
