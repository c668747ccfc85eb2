/**
 * The accounts of a fleet in Redis (ports/account-slots.ts): a pool is one hash, a question one call of a script. The script
 * knows the roster of a process by its name; it asks for the roster where it does not.
 */
import type { AccountSlots, HeardVerdict, SlotAnswer, SlotQuestion } from '../../../ports/account-slots.ts'
import { unavailable } from './redis-server.ts'
import type { RedisState } from './redis-state.ts'
import { accountsScript } from './scripts.ts'

const shortages = ['none', 'out', 'window', 'concurrency', 'record', 'share'] as const

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
  grants: Rows<number>,
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
      if (typeof reply !== 'string' || reply === '?') throw unavailable(question.pool, String(reply))
      return read(JSON.parse(reply) as Written, question.slotMs)
    },
  }
}

function write(question: SlotQuestion, withRoster: boolean): string {
  const { roster, asks, verdicts, blocks, abandoned, covered, fills } = question
  const counted = (rows: readonly (readonly number[])[]) =>
    rows.length === 0 ? undefined : rows.map(([account, ...rest]) => [account! + 1, ...rest])
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
          concurrency: roster.concurrency,
          rules: roster.rules.map(({ windowMs, width, run, max }) => [windowMs, width, run, max]),
        }
      : undefined,
    n: question.bornAt,
    v: question.lastVerdict,
    s: question.lastResults,
    r: question.results,
    f: question.withUses ? 1 : undefined,
    q: asks.flatMap(({ account, want, kept, busy, late, back }) => [
      account + 1,
      want,
      kept,
      busy,
      late,
      back.length === 0 ? 0 : back,
    ]),
    u: verdicts.map(({ account, openUntil, coolDownMs, concurrency, share, risesFrom }) => [
      account + 1,
      openUntil,
      concurrency,
      share,
      risesFrom,
      String(coolDownMs),
    ]),
    b: counted(blocks),
    x: abandoned.map((account) => account + 1),
    c: counted(covered),
    F: counted(fills),
  })
}

const listOf = <T>(rows: Rows<T>): readonly T[] => (Array.isArray(rows) ? rows : [])

function read(written: Written, slotMs: number): SlotAnswer {
  const [slot, tick, bornAt, lastVerdict, lastResults, isNewMember, grants, verdicts, results, uses, long] =
    written
  const flat = listOf(grants)
  return {
    slot,
    restMs: (slot + 1) * slotMs - tick,
    bornAt,
    lastVerdict,
    lastResults,
    isNewMember: isNewMember === 1,
    grants: Array.from({ length: flat.length / 4 }, (_, index) => ({
      tokens: flat[4 * index]!,
      isProbe: flat[4 * index + 1] === 1,
      shortage: shortages[flat[4 * index + 2]!]!,
      busy: flat[4 * index + 3]!,
    })),
    verdicts: listOf(verdicts).map(
      ([account, blockedUntil, openUntil, probedUntil, concurrency, detail]): HeardVerdict => ({
        account: account - 1,
        blockedUntil,
        openUntil,
        probedUntil,
        concurrency,
        coolDownMs: Number(detail),
      }),
    ),
    results: listOf(results),
    uses: listOf(uses).map(listOf<number>),
    long: listOf(long).map(([account, total, covered, isFilled]) => ({
      account: account! - 1,
      total: total!,
      covered: covered!,
      isFilled: isFilled === 1,
    })),
  }
}
