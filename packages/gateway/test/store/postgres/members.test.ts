/** Processes that know each other by their beats on a real PostgreSQL: who is alive, who has died, who does a chore. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { exerciseMembers } from '../../../src/conformance/members.ts'
import { someNotification } from '../../../src/conformance/store/sample.ts'
import { channels } from '../../../src/model.ts'
import type { PostgresFleet } from '../../../src/store/postgres/fleet/open-fleet.ts'
import { openPostgresTarget } from '../../../src/store/postgres/record-target.ts'
import { addressOf, ask, dropSchemas, joinAt, openAt, schemaUrl } from './database.ts'
import { beatMs, clock, joining, leave, proxyTo, until } from './fleet-processes.ts'

describe('a process of a fleet on PostgreSQL', needs('postgres'), () => {
  const joined: PostgresFleet[] = []
  after(async () => {
    await Promise.all(joined.map(({ store }) => store.close()))
    await dropSchemas()
  })
  exerciseMembers(
    'Members on PostgreSQL',
    async () => {
      const fleet = await joinAt(schemaUrl('members'), clock)
      joined.push(fleet)
      return fleet.members
    },
    until,
  )
})

test(
  'who finds a schema served is told how both can serve it, and a move to stop the gateway',
  needs('postgres'),
  async (t) => {
    const url = schemaUrl('served')
    const store = await openAt(url, clock)
    t.after(() => store.close())
    const refused = (opened: Promise<unknown>, message: RegExp) =>
      assert.rejects(opened, { code: 'INVALID_CONFIG', message })
    const move = { address: addressOf(url), version: 'test', isDryRun: false }
    await Promise.all([
      refused(
        openAt(url, clock),
        /one process serves a store\. Name one Redis in "state" of all of them, or stop/,
      ),
      refused(
        openPostgresTarget(move),
        /: a move needs a store that none serves\. Stop it first \(SIGTERM\)\.$/,
      ),
    ])
  },
)

// They mostly wait, each in a schema of its own.
describe('the processes of a fleet on PostgreSQL', { ...needs('postgres'), concurrency: 3 }, () => {
  after(dropSchemas)

  test('counts those that are alive, and each role has one holder until that one leaves', async (t) => {
    const join = joining(t)
    const url = schemaUrl('count')
    const [a, b, c] = [await join(url), await join(url), await join(url)]
    await until(() => [a, b, c].every(({ members }) => members.count() === 3))
    const holders = () => [a, b, c].filter(({ members }) => members.holds('retention'))
    await until(() => holders().length > 0)
    for (let look = 0; look < 30; look += 1) {
      assert.ok(holders().length <= 1)
      await sleep(5)
    }
    const [first] = holders()
    await first!.members.close()
    // Another one may have taken it already.
    assert.ok(!first!.members.holds('retention') && holders().length <= 1)
    await until(() => holders().length === 1)
    await until(() => holders()[0]!.members.count() === 2)
  })

  test('declares a process dead whose beats have stopped, and gives its roles and its notifications to another', async (t) => {
    const join = joining(t)
    const url = schemaUrl('death')
    let declaredDead = 0
    const proxy = await proxyTo(t, url)
    const mortal = await join(proxy.url, {
      onDeclaredDead: () => {
        declaredDead += 1
      },
    })
    await until(() => mortal.members.holds('orphans'))
    const at = clock.now() - 1_000
    const list = Array.from({ length: 20 }, () => someNotification({ dueAt: at, status: 'scheduled' }))
    assert.ok((await mortal.store.commit({ accept: list })).applied)
    assert.equal((await mortal.store.claimDue(clock.now(), 100)).length, 20)
    const [begun] = list
    await mortal.store.begin([{ notification: begun! }])
    const survivor = await join(url)
    let deaths = 0
    survivor.members.onDeath((gone) => {
      deaths += 1
      assert.deepEqual(gone, [mortal.members.id])
    })
    assert.equal(survivor.members.count(), 2)
    assert.deepEqual(await survivor.store.takeOver(clock.now(), 100), [])
    const diedAt = performance.now()
    proxy.freeze()
    await until(() => deaths > 0)
    const tookMs = performance.now() - diedAt
    assert.ok(tookMs >= 5 * beatMs, `after ${tookMs} ms a process was declared dead that had beaten since`)
    const taken = await survivor.store.takeOver(clock.now(), 100)
    assert.equal(taken.length, 20)
    assert.deepEqual(
      taken.filter(({ mayHaveLeft }) => mayHaveLeft).map(({ notification: { id } }) => id),
      [begun!.id],
    )
    await until(() => survivor.members.count() === 1 && survivor.members.holds('orphans'))
    await until(async () => (await ask(url, 'SELECT FROM member WHERE state = 4')).length === 1)
    const [{ members: counted } = { members: 0 }] = await ask(
      url,
      'SELECT count(DISTINCT member)::int AS members FROM tally WHERE member > 0 AND count <> 0',
    )
    assert.equal(counted, 0, 'its counts are folded')
    assert.deepEqual(
      (await survivor.store.tallies()).map(({ status, count }) => [status, count]),
      [['scheduled', 20]],
    )
    proxy.thaw()
    await until(() => declaredDead === 1)
    assert.ok(!mortal.members.holds('orphans'))
    await assert.rejects(async () => mortal.store.begin([{ notification: begun! }]), {
      code: 'STORE_UNAVAILABLE',
    })
  })

  test('names a dead process as unheard to those that have never heard it, and to no others', async (t) => {
    const join = joining(t)
    const url = schemaUrl('unheard')
    const proxy = await proxyTo(t, url)
    const mortal = await join(proxy.url)
    const told = new Map<string, readonly string[]>()
    const listen = ({ members }: PostgresFleet) =>
      members.onDeath((gone, unheard = []) => {
        if (gone.includes(mortal.members.id) && !told.has(members.id)) told.set(members.id, unheard)
      })
    const survivor = await join(url)
    listen(survivor)
    await sleep(4 * beatMs)
    proxy.freeze()
    await sleep(beatMs)
    const successor = await join(url)
    listen(successor)
    await until(() => told.size === 2)
    assert.deepEqual(told.get(survivor.members.id), [])
    assert.deepEqual(told.get(successor.members.id), [mortal.members.id])
  })

  test('takes over from a process that was stopped in the middle of a large answer', async (t) => {
    const join = joining(t)
    const url = schemaUrl('large')
    let deaths = 0
    const survivor = await join(url)
    survivor.members.onDeath(() => {
      deaths += 1
    })
    // More than the buffers of two sockets hold.
    const content = { text: 'x'.repeat(200_000) }
    for (let each = 0; each < 150; each += 1)
      await survivor.store.commit({ accept: [someNotification({ status: 'scheduled', dueAt: 1, content })] })
    const proxy = await proxyTo(t, url)
    const mortal = await join(proxy.url)
    proxy.freezeBehind('claim_due')
    const claim = assert.rejects(mortal.store.claimDue(clock.now(), 500))
    // The server waits for a reader in the transaction of the claim, whose locks nobody gets meanwhile.
    await until(() => deaths > 0, 15_000)
    assert.equal((await survivor.store.claimDue(clock.now(), 500)).length, 150)
    proxy.thaw()
    await claim
  })

  test('tells which channels the others serve that are alive; one that did not say may serve any', async (t) => {
    const join = joining(t)
    const url = schemaUrl('channels')
    const proxy = await proxyTo(t, url)
    const a = await join(url, { channels: ['email', 'sms'] })
    const b = await join(url, { channels: ['email', 'slack'] })
    await join(proxy.url, { channels: ['push'] })
    const others = () =>
      [a, b].map(({ members }) => channels.filter((channel) => members.othersServe(channel)).join())
    await until(() => others().join(' ') === 'email,push,slack email,sms,push')
    proxy.freeze()
    await until(() => others().join(' ') === 'email,slack email,sms')
    proxy.thaw()
    await ask(url, `UPDATE member SET channels = NULL WHERE id = ${b.members.id}`)
    await until(() => others()[0] === channels.join())
    await leave(b)
    await until(() => others()[0] === '')
  })

  test('declares nobody dead while its own connection is lost again and again, and then the one that is silent', async (t) => {
    const join = joining(t)
    const url = schemaUrl('deaf')
    const [proxy, silence] = [await proxyTo(t, url), await proxyTo(t, url)]
    const deaf = await join(proxy.url)
    await join(silence.url)
    let deaths = 0
    deaf.members.onDeath(() => {
      deaths += 1
    })
    await until(() => deaf.members.count() === 2)
    silence.freeze()
    // Each time before it has looked often enough.
    for (let times = 0; times < 8; times += 1) {
      await sleep(2 * beatMs)
      proxy.cutAll()
    }
    assert.equal(deaths, 0)
    await until(() => deaths > 0)
  })

  test('declares nobody dead right after this process was stopped itself', async (t) => {
    const join = joining(t)
    const url = schemaUrl('stopped')
    const silence = await proxyTo(t, url)
    let ahead = 0
    const looker = await join(url, {}, { ...clock, monotonic: () => clock.monotonic() + ahead })
    let deaths = 0
    looker.members.onDeath(() => {
      deaths += 1
    })
    await join(silence.url)
    await until(() => looker.members.count() === 2)
    silence.freeze()
    for (let times = 0; times < 24; times += 1) {
      ahead += 60_000
      await sleep(beatMs / 3)
    }
    assert.equal(deaths, 0)
    await until(() => deaths > 0)
  })

  test('refuses a process that must be alone beside others, and another beside one that is alone', async (t) => {
    const join = joining(t)
    const url = schemaUrl('mixed')
    const fleet = await join(url)
    await assert.rejects(openAt(url, clock), { code: 'INVALID_CONFIG', message: /Another gateway/ })
    await leave(fleet)
    const alone = await openAt(url, clock)
    await assert.rejects(join(url), { code: 'INVALID_CONFIG', message: /Another gateway/ })
    await alone.close()
  })

  test('frees what a process held at once when it closes unsettled', async (t) => {
    const join = joining(t)
    const url = schemaUrl('unsettled')
    const [a, b] = [await join(url), await join(url)]
    const one = someNotification({ dueAt: clock.now() - 1_000, status: 'scheduled' })
    assert.ok((await a.store.commit({ accept: [one] })).applied)
    assert.equal((await a.store.claimDue(clock.now(), 10)).length, 1)
    let deaths = 0
    b.members.onDeath(() => {
      deaths += 1
    })
    await a.members.close()
    await a.store.close(false)
    await until(() => deaths > 0)
    assert.equal((await b.store.takeOver(clock.now(), 10)).length, 1)
  })

  test('declares a process dead while the rows of others that have died are locked', async (t) => {
    const join = joining(t)
    const url = schemaUrl('locked')
    const silence = await proxyTo(t, url)
    let faults = 0
    const onError = (): void => {
      faults += 1
    }
    const lookerMs = 300
    const looker = await join(url, { onError, beatMs: lookerMs })
    const mortal = await join(silence.url)
    await until(() => looker.members.count() === 2)
    // As the locks of another transaction, each of which is waited for as long as a beat.
    await ask(
      url,
      `CREATE FUNCTION be_locked() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          PERFORM pg_sleep(${lookerMs / 1_000});
          RAISE EXCEPTION 'locked' USING ERRCODE = 'lock_not_available';
        END $$;
        INSERT INTO member (id, name, version, state) SELECT id, 'gone', 'test', 3 FROM generate_series(1, 3) id;
        CREATE TRIGGER locked BEFORE UPDATE ON member FOR EACH ROW WHEN (OLD.id <= 3) EXECUTE FUNCTION be_locked()`,
    )
    await until(() => faults > 0)
    silence.freeze()
    const deaths = new Set<string>()
    looker.members.onDeath((gone) => {
      for (const id of gone) deaths.add(id)
    })
    await until(() => deaths.has(mortal.members.id))
    await ask(url, 'DROP TRIGGER locked ON member')
    await until(async () => (await ask(url, 'SELECT FROM member WHERE id <= 3 AND state = 4')).length === 3)
  })
})
