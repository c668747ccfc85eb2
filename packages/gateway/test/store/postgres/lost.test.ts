/** Connections that end while something is under way: the record tells what became of it, and nothing is stuck. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { epoch, settled, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { SluiceError } from '../../../src/errors.ts'
import type { Change, Store } from '../../../src/ports.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres.ts'
import { addressOf, ask, dropSchemas, openAt, schemaUrl } from './database.ts'
import { startProxy } from './proxy.ts'

/** Cuts the connections of this run's schema from the server's side, whatever they do. */
const cut = (url: string): Promise<unknown> =>
  ask(
    url,
    `SELECT pg_terminate_backend(pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
      WHERE a.application_name = 'sluice' AND l.locktype = 'advisory' AND l.classid = hashtext('sluice alone')::oid
        AND l.objid = hashtext(current_schema())::oid`,
  )

const isUncertain = (error: unknown): boolean => error instanceof SluiceError && error.isUncertain

/** Commits a change; where the answer is lost, asks until the store tells what became of it, as the ledger does. */
async function outcome(store: Store, change: Change): Promise<boolean> {
  try {
    return (await store.commit(change)).applied
  } catch (error) {
    assert.ok(error instanceof SluiceError && error.code === 'STORE_UNAVAILABLE', String(error))
    if (!isUncertain(error)) return false
  }
  for (;;) {
    try {
      return await store.isApplied(change)
    } catch {
      await sleep(20)
    }
  }
}

describe('a lost connection to PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('leaves no doubt about a commit: each is applied, or refused for good', async (t) => {
    const url = schemaUrl('lost')
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    let [uncertain, applied, rounds] = [0, 0, 0]
    for (; rounds < 40 && (uncertain < 5 || rounds < 10); rounds += 1) {
      const changes = Array.from({ length: 20 }, () => ({ accept: [someNotification()] }))
      const counted = { ...store, commit: (change: Change) => noted(store.commit(change)) }
      async function noted<T>(committing: Promise<T>): Promise<T> {
        return committing.catch((error) => {
          if (isUncertain(error)) uncertain += 1
          throw error
        })
      }
      const outcomes = changes.map(async (change) => {
        await sleep(Math.random() * 12)
        return { change, isOn: await outcome(counted, change) }
      })
      await sleep(4)
      await cut(url)
      for (const { change, isOn } of await Promise.all(outcomes)) {
        const [row] = change.accept
        const found = await store.notification(row!.tenant, row!.id)
        assert.equal(found !== undefined, isOn)
        if (isOn) applied += 1
      }
    }
    const counts = await store.tallies()
    assert.equal(
      counts.reduce((sum, { count }) => sum + count, 0),
      applied,
    )
    t.diagnostic(`${applied} applied in ${rounds} rounds, ${uncertain} answers were lost`)
    assert.ok(uncertain > 0, 'no answer was lost')
  })

  test('knows a commit as applied whose answer alone was lost', async (t) => {
    const proxy = await startProxy(schemaUrl('answers'))
    const store = await openAt(proxy.url, stillClock(epoch))
    t.after(() => store.close().finally(proxy.close))
    for (let round = 0; round < 5; round += 1) {
      const change = { accept: [someNotification()] }
      proxy.loseAnswerOf('write true')
      await assert.rejects(store.commit(change), isUncertain)
      assert.equal(await store.isApplied(change), true)
      assert.ok((await store.commit({ accept: [someNotification()] })).applied)
    }
  })

  test('that stays open behind an answer that makes no sense is ended, and frees the store', async (t) => {
    const proxy = await startProxy(schemaUrl('senseless'))
    const store = await openAt(proxy.url, stillClock(epoch))
    t.after(() => store.close().finally(proxy.close))
    assert.ok((await store.commit({ accept: [someNotification()] })).applied)
    proxy.answerUnasked()
    await sleep(50)
    const change = { accept: [someNotification()] }
    // The server frees the place of the ended connection a moment later.
    for (const until = performance.now() + 5_000; !(await outcome(store, change)); await sleep(50))
      assert.ok(performance.now() < until, 'the connection has kept the place of the store')
  })

  test('refuses a change that it could not send in time, and writes those beside it', async (t) => {
    const clock = stillClock(epoch)
    const store = await openAt(schemaUrl('late'), clock)
    t.after(() => store.close())
    const [late, timely, patient] = [1, 2, 3].map(() => someNotification())
    const committing = Promise.allSettled([
      store.commit({ accept: [late!], sendBefore: epoch + 5_000 }),
      store.commit({ accept: [timely!], sendBefore: epoch + 8_000 }),
      store.commit({ accept: [patient!] }),
    ])
    // They wait in this process, for instance behind a server that does not answer.
    clock.set(epoch + 6_000)
    const [refused, ...others] = await committing
    assert.ok(refused.status === 'rejected')
    assert.deepEqual([refused.reason.code, isUncertain(refused.reason)], ['STORE_UNAVAILABLE', false])
    assert.deepEqual(
      others.map((each) => each.status === 'fulfilled' && each.value.applied),
      [true, true],
    )
    const found = await Promise.all(
      [late, timely, patient].map((of) => store.notification(of!.tenant, of!.id)),
    )
    assert.deepEqual(
      found.map((each) => each !== undefined),
      [false, true, true],
    )
  })

  test('refuses in time what waits behind the lock of another transaction, and tells that it writes nothing', async (t) => {
    const url = schemaUrl('locked')
    const store = await openAt(url, createSystemClock())
    const blocker = await connect(addressOf(url))
    t.after(() => store.close().finally(blocker.close))
    const before = someNotification()
    assert.ok((await store.commit({ accept: [before] })).applied)
    await blocker.query('BEGIN; LOCK TABLE live IN ACCESS EXCLUSIVE MODE')
    const first = store.commit({ accept: [someNotification()] })
    await sleep(100)
    const [waits, late] = [someNotification(), someNotification()]
    const begunAt = performance.now()
    const waiting = store.commit({ accept: [waits] })
    const refused = store.commit({ accept: [late], sendBefore: begunAt + 500 })
    await assert.rejects(refused, { code: 'STORE_UNAVAILABLE', isUncertain: false })
    assert.ok(performance.now() - begunAt < 1_500, 'it is refused while another change stands in the way')
    await assert.rejects(store.ping(), { message: /has written nothing for 3 s: the lock of another/ })
    await blocker.query('COMMIT')
    assert.deepEqual([(await first).applied, (await waiting).applied], [true, true])
    assert.equal(await store.notification(late.tenant, late.id), undefined)
    await store.ping()
  })

  test('gives what a lost claim took to the next one', async (t) => {
    const proxy = await startProxy(schemaUrl('claims'))
    const store = await openAt(proxy.url, stillClock(epoch))
    t.after(() => store.close().finally(proxy.close))
    const list = Array.from({ length: 9 }, () => someNotification({ status: 'scheduled' }))
    assert.ok((await store.commit({ accept: list })).applied)
    const claimed: string[] = []
    for (let round = 0; round < 3; round += 1) {
      proxy.loseAnswerOf('claim_due')
      await assert.rejects(store.claimDue(epoch + 10, 3), { code: 'STORE_UNAVAILABLE' })
      // The server frees the place of the lost connection a moment later.
      for (let page: readonly { id: string }[] = [], tries = 0; page.length === 0; tries += 1) {
        assert.ok(tries < 1_500, 'the claim is lost for good')
        page = await store.claimDue(epoch + 10, 3).catch(() => [])
        claimed.push(...page.map(({ id }) => id))
        if (page.length === 0) await sleep(20)
      }
    }
    assert.deepEqual(
      claimed,
      list.map(({ id }) => id),
    )
  })

  test('counts what was begun when a process ended as perhaps sent, and only that', async () => {
    const url = schemaUrl('begun')
    const clock = stillClock(epoch)
    const store = await openAt(url, clock)
    const [begun, claimed, done] = [1, 2, 3].map(() => someNotification())
    assert.ok((await store.commit({ accept: [begun!, claimed!, done!] })).applied)
    await store.claimDue(epoch, 10)
    await store.begin([begun!, done!].map((notification) => ({ notification })))
    assert.ok((await store.commit({ moves: [settled(done!, epoch + 1)] })).applied)
    await store.close(false)
    clock.set(epoch + 500)
    const again = await openAt(url, clock)
    assert.equal(again.unsettled, true)
    assert.deepEqual(
      (await again.claimDue(epoch + 500, 10)).map(({ id, suspects }) => [id, suspects]),
      [
        [begun!.id, [epoch + 500]],
        [claimed!.id, undefined],
      ],
    )
    assert.equal((await again.notification('acme', done!.id))?.suspects, undefined)
    await again.close()
    const third = await openAt(url, clock)
    assert.equal(third.unsettled, false)
    await third.close()
  })

  test('ends in order also where what a process holds is freed more slowly than a statement may take', async () => {
    const url = schemaUrl('slow')
    const store = await openAt(url, stillClock(epoch))
    await ask(
      url,
      `CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(5.5); RETURN new; END $$;
        CREATE TRIGGER slow BEFORE UPDATE ON member FOR EACH ROW WHEN (new.state = 4) EXECUTE FUNCTION be_slow()`,
    )
    await store.close()
    const again = await openAt(url, stillClock(epoch))
    assert.equal(again.unsettled, false)
    await ask(url, 'DROP TRIGGER slow ON member')
    await again.close()
  })

  test('tells a process whose place another one has taken that its registration has ended', async (t) => {
    const url = schemaUrl('replaced')
    const clock = stillClock(epoch)
    let isFenced = false
    const first = await openPostgresStore({
      address: addressOf(url),
      clock,
      version: 'test',
      alone: true,
      onFenced() {
        isFenced = true
      },
    })
    t.after(() => first.close().catch(() => {}))
    await cut(url)
    const second = await openAt(url, clock)
    t.after(() => second.close())
    const change = { accept: [someNotification()] }
    for (let times = 0; times < 3 && !isFenced; times += 1)
      await first.commit(change).then(({ applied }) => assert.ok(!applied), assert.ok)
    assert.ok(isFenced, 'it goes on, and writes nothing')
    assert.ok((await second.commit(change)).applied)
  })
})
