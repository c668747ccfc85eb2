/**
 * Connections to PostgreSQL are cut after a statement was worked and before its answer, the statements in turn, as fast as
 * they come. No notification may stand as `sending` for more than 5 s without a call, and none may be lost.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { startProxy } from '../../packages/gateway/test/store/postgres/proxy.ts'
import { beatMs, missingAfter, now, type Proof, postFor, unlimited } from './proof.ts'

/**
 * Statements of the writing connection, of the beats and of reads, by their names where they are prepared. Claims are freed
 * behind a lost claim, and an epoch is opened behind every loss on that connection.
 */
const statements: Readonly<Record<string, string>> = {
  rights: 'write false true',
  changes: 'write true false',
  changesAndRights: 'write true true',
  claims: 'claim_due(',
  freedClaims: 'free_claims(',
  epochs: 'open_epoch(',
  beats: 'beat',
  whole: 'FROM whole',
  recipients: 'recipients',
  own: 'owner + 0 = $1',
}
/** A statement that does not come within this time is passed over, ms. */
const awaitedMs = 2_500

export const lostAnswers: Proof = {
  shows: 'answers of every kind of statement are lost: nothing stands in `sending` for 5 s without a call',
  engines: ['postgres', 'redis'],
  small: { seconds: 15 },
  full: { seconds: 300 },
  async run({ cleanup, seconds }) {
    const direct = schemaUrl('proof_lost')
    const proxy = await startProxy(direct)
    const fleet = await startFleet(cleanup, {
      name: 'proof_lost',
      config: { store: proxy.url },
      beatMs,
      policy: unlimited,
    })
    const client = new pg.Client(direct.replace(/[?].*/, ''))
    await client.connect()
    await client.query(`SET search_path = ${new URL(direct).searchParams.get('schema')!}`)
    const endsAt = performance.now() + seconds * 1_000
    const lostOf = (text: string): number => proxy.lost.get(text) ?? 0
    const losing = (async () => {
      while (performance.now() < endsAt)
        for (const text of Object.values(statements)) {
          const before = lostOf(text)
          proxy.loseAnswerOf(text)
          // Nothing else opens an epoch: behind the loss before it was opened at once.
          if (text === statements.epochs) proxy.cutAll()
          for (const until = performance.now() + awaitedMs; performance.now() < until; await sleep(20))
            if (lostOf(text) > before) break
          await sleep(100)
        }
    })()
    /** When each row that is being sent was seen first, by its id and the instant of its right. */
    const seen = new Map<string, number>()
    let longestMs = 0
    const stuck = new Set<string>()
    let isOver = false
    const watching = (async () => {
      for (; !isOver; await sleep(250)) {
        const { rows } = await client.query('SELECT id, begun_at FROM live WHERE begun_at IS NOT NULL')
        const rights = new Map(rows.map(({ id, begun_at: at }) => [`${id} ${at}`, id as string]))
        for (const right of seen.keys()) if (!rights.has(right)) seen.delete(right)
        const at = now()
        for (const right of rights.keys()) if (!seen.has(right)) seen.set(right, at)
        const old = [...seen].filter(([, since]) => at - since > 1_000)
        if (old.length === 0) continue
        const calledAt = new Map((await callsOf(fleet)).map((call) => [call.id, call.at]))
        for (const [right, since] of old) {
          if ((calledAt.get(rights.get(right)!) ?? 0) > since - 1_000) continue
          longestMs = Math.max(longestMs, at - since)
          if (at - since > 5_000) stuck.add(right)
        }
      }
    })()
    // Each recipient is a new one, and notifications are looked up, so that all kinds of statements come.
    const reading = (async () => {
      for (let n = 0; performance.now() < endsAt; n += 1, await sleep(100)) {
        const { id } = (await callsOf(fleet)).at(-1) ?? {}
        const site = fleet.sites[n % fleet.sites.length]!
        if (id !== undefined)
          await site
            .call('GET', `/api/v1/notifications/${id}`, undefined, { 'x-tenant-id': 'default' }, 4_000)
            .catch(() => undefined)
      }
    })()
    const accepted = await postFor(fleet, seconds * 1_000, 1_000_000)
    await losing
    await reading
    const missing = await missingAfter(fleet, accepted, 30_000)
    isOver = true
    await watching
    await client.end()
    proxy.close()
    const calls = await callsOf(fleet)
    const twice = calls.length - new Set(calls.map(({ id }) => id)).size
    const lost = Object.fromEntries(Object.entries(statements).map(([kind, text]) => [kind, lostOf(text)]))
    const figures = {
      lost,
      accepted: accepted.length,
      missing: missing.length,
      calledTwice: twice,
      longestWithoutCallMs: Math.round(longestMs),
      stuck: stuck.size,
    }
    const isEach = ['rights', 'changes', 'claims', 'epochs', 'beats', 'whole', 'recipients'].every(
      (kind) => lost[kind]! > 0,
    )
    return {
      figures,
      isRight: missing.length === 0 && stuck.size === 0 && accepted.length > 0 && isEach,
    }
  },
}
