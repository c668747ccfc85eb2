/** A process of a fleet announces its next policy, and hears which ones the others have left. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { type BeatAnswer, type MemberRecord, openMembers } from '../../../src/store/postgres/fleet/members.ts'
import type { PostgresFleet } from '../../../src/store/postgres/fleet/open-fleet.ts'
import { ask, dropSchemas, schemaUrl } from './database.ts'
import { beatMs, clock, joining, leave, proxyTo, until } from './fleet-processes.ts'

/** A process with the policy `v1`, whose record answers as it is told to. */
async function open(t: TestContext) {
  const beats: (readonly string[])[] = []
  const record = {
    isLiving: true,
    others: [] as BeatAnswer['members'],
    fault: undefined as Error | undefined,
  }
  const connection: MemberRecord = {
    isOpen: true,
    async beat(_member, _wanted, policies) {
      beats.push(policies)
      if (record.fault !== undefined) throw record.fault
      return { living: record.isLiving, roles: [], members: record.others, policiesLeft: '' }
    },
    declareDead: async () => true,
    async settle() {
      throw new Error('canceling statement due to lock timeout')
    },
    leave: async () => {},
    close: async () => {},
  }
  const members = await openMembers({
    connect: async () => connection,
    ...{ member: '1', policy: () => 'v1', clock, beatMs: 20 },
    onDeclaredDead: () => {},
    onError: () => {},
  })
  t.after(() => members.close())
  return { members, beats, record }
}

describe('the announcement of a policy', () => {
  test('is on record although another process cannot be judged', async (t) => {
    const { members, beats, record } = await open(t)
    record.others = [{ id: '2', beat: 1, state: 3, channels: null }]
    await members.announcePolicy('v2')
    assert.deepEqual(beats.at(-1), ['v1', 'v2'])
  })

  test('is refused at a process that was declared dead, or has ended', async (t) => {
    const { members, record } = await open(t)
    record.isLiving = false
    await assert.rejects(members.announcePolicy('v2'), { code: 'STORE_UNAVAILABLE' })
    await assert.rejects(members.announcePolicy('v2'), { code: 'STORE_UNAVAILABLE' })
    const { members: closed } = await open(t)
    await closed.close()
    await assert.rejects(closed.announcePolicy('v2'), { code: 'STORE_UNAVAILABLE' })
  })

  test('is taken back where it was refused', async (t) => {
    const { members, beats, record } = await open(t)
    record.fault = new Error('the connection was lost')
    await assert.rejects(members.announcePolicy('v2'), { code: 'STORE_UNAVAILABLE', message: /Reload again/ })
    record.fault = undefined
    const told = beats.length
    await until(() => beats.length > told)
    assert.deepEqual(beats.at(-1), ['v1'])
  })
})

describe('policies that others have left', { ...needs('postgres'), concurrency: 3 }, () => {
  after(dropSchemas)

  test('tells when others have left another policy: by their end, their death, or for a new one', async (t) => {
    const join = joining(t)
    const url = schemaUrl('policies')
    const proxy = await proxyTo(t, url)
    const { members } = await join(url, { policy: () => 'new' })
    const marks = new Set([members.policiesLeft()])
    const untilNewMark = async (): Promise<void> => {
      await until(() => !marks.has(members.policiesLeft()))
      marks.add(members.policiesLeft())
    }
    const [first, second] = await Promise.all(
      ['old', 'old'].map((policy) => join(url, { policy: () => policy })),
    )
    await leave(first!)
    await untilNewMark()
    await leave(second!)
    await untilNewMark()
    let changing = 'old'
    const third = await join(url, { policy: () => changing })
    changing = 'new'
    await untilNewMark()
    await leave(third)
    await join(proxy.url, { policy: () => 'old' })
    await sleep(4 * beatMs)
    assert.ok(marks.has(members.policiesLeft()), 'a start, and an end under the same policy, change nothing')
    proxy.freeze()
    await untilNewMark()
    proxy.thaw()
    assert.equal((await join(url, { policy: () => 'new' })).members.policiesLeft(), members.policiesLeft())
  })

  test('tells of an announced policy that a process left before its next beat, by going back or because it was killed', async (t) => {
    const join = joining(t)
    const url = schemaUrl('announced')
    const proxy = await proxyTo(t, url)
    const old = { policy: () => 'old' }
    const { members } = await join(url, old)
    const [goesBack, isKilled] = [await join(url, old), await join(proxy.url, old)]
    const first = members.policiesLeft()
    await goesBack.members.announcePolicy('new')
    await goesBack.members.announcePolicy('old')
    await until(() => members.policiesLeft() !== first)
    const second = members.policiesLeft()
    await isKilled.members.announcePolicy('new')
    proxy.freeze()
    await until(() => members.policiesLeft() !== second)
  })

  test('ends two processes of one policy beside each other', async (t) => {
    const join = joining(t)
    const url = schemaUrl('ends')
    const [first, second] = await Promise.all([join(url), join(url)])
    const end = ({ members }: PostgresFleet) => `SELECT settle_member(${members.id}, 0)`
    // The first one frees what it held for longer than a lock is waited for.
    const long = ask(url, `BEGIN; ${end(first!)}; SELECT pg_sleep(2); COMMIT`)
    await sleep(200)
    const begun = performance.now()
    await ask(url, end(second!))
    assert.ok(performance.now() - begun < 1_000)
    await long
  })

  test('forgets policies that were left a thousand departures ago, and tells of those that are left from then on', async (t) => {
    const join = joining(t)
    const url = schemaUrl('forgotten')
    const { members } = await join(url, { policy: () => 'new' })
    const leaveOld = async (): Promise<void> => leave(await join(url, { policy: () => 'old' }))
    const names = async () =>
      (await ask(url, 'SELECT policy FROM departed_policy ORDER BY number')).map(({ policy }) => policy)
    await ask(
      url,
      "INSERT INTO departed_policy SELECT 'left ' || n, nextval('departure') FROM generate_series(1, 1000) n",
    )
    const first = members.policiesLeft()
    await leaveOld()
    await until(() => members.policiesLeft() !== first)
    assert.deepEqual((await names()).slice(-2), ['left 1000', 'old'])
    assert.equal((await names()).length, 1_000, 'the first is forgotten')
    const second = members.policiesLeft()
    await leaveOld()
    await until(() => members.policiesLeft() !== second)
    assert.equal((await names()).length, 999)
  })
})
