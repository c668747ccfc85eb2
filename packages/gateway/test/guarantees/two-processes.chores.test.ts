/**
 * Digests and batches in the background of two gateways over one record in memory, in virtual time: each is worked once,
 * also where the process that began it dies.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Job, Notification } from '../../src/model.ts'
import { type Harness, minute, type Sent, second } from '../harness.ts'
import { mine, stateOf, workFor } from '../http/job-harness.ts'
import { overriding } from '../overriding.ts'
import { during, newsDigests, twoProcesses } from './two-processes.ts'

const tenant = 'default'

const policy = {
  version: 1,
  limits: [],
  digests: newsDigests,
}

const item = (index: number) => ({ template: 'new-comment', data: { index }, actor: 'bob' })

const sentBy = (...processes: readonly Harness[]): readonly Sent[] => processes.flatMap((each) => each.sent())

const totalOf = ({ message }: Sent) => (message.data as { totalCount: number }).totalCount

const statesOf = async ({ gateway }: Harness, ids: readonly string[]) =>
  await Promise.all(ids.map(async (id) => (await gateway.store.notification(tenant, id))?.status))

/** Posts items in turn at each process; returns their ids. */
async function collect(count: number, ...processes: readonly Harness[]): Promise<readonly string[]> {
  const ids: string[] = []
  for (let index = 0; index < count; index += 1) {
    const at = processes[index % processes.length]!
    ids.push((await at.post(item(index))).id)
  }
  return ids
}

test('items of two processes join one digest, which is closed once', async () => {
  const { clock, a, b } = await twoProcesses({ policy })
  const opensAt = clock.now()
  const ids = await collect(4, a, b)
  await clock.runUntil(opensAt + 11 * minute)
  const sent = sentBy(a, b)
  assert.deepEqual(sent.map(totalOf), [4])
  assert.equal(sent[0]?.at, opensAt + 10 * minute)
  assert.deepEqual(
    await statesOf(a, ids),
    Array.from(ids, () => 'merged'),
  )
  await a.stop()
  await b.stop()
})

test('items that come at once to two processes join one digest', async () => {
  const { clock, a, b } = await twoProcesses({ policy })
  const posted = await during(
    a,
    Promise.all(Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? a : b).post(item(index)))),
  )
  await clock.runUntil(clock.now() + 11 * minute)
  assert.deepEqual(sentBy(a, b).map(totalOf), [20])
  assert.deepEqual(
    await statesOf(
      a,
      posted.map(({ id }) => id),
    ),
    Array.from(posted, () => 'merged'),
  )
  await a.stop()
  await b.stop()
})

test('a digest that another process has closed is left by the cache: the next item opens one', async () => {
  const { clock, a, b } = await twoProcesses({ policy })
  await collect(4, a, b)
  await clock.runUntil(clock.now() + 15 * minute)
  for (const at of [b, a]) {
    await collect(2, at)
    await clock.runUntil(clock.now() + 15 * minute)
  }
  assert.deepEqual(sentBy(a, b).map(totalOf), [4, 2, 2])
  await a.stop()
  await b.stop()
})

for (const opener of ['a', 'b'] as const)
  test(`a digest is closed within a second of its time by whichever process closes digests, opened by ${opener}`, async () => {
    const { clock, a, b } = await twoProcesses({ policy })
    const opensAt = clock.now()
    await collect(2, opener === 'a' ? a : b)
    await clock.runUntil(opensAt + 12 * minute)
    const [sent] = sentBy(a, b)
    assert.ok(sent !== undefined && sent.at - opensAt - 10 * minute <= second, `${sent?.at}`)
    await a.stop()
    await b.stop()
  })

test('a digest that the process which closes digests does not have in its policy is closed by one that has it', async () => {
  const limits = [{ name: 'daily', for: 'any', max: '20/day', over: 'delay' }]
  const { clock, a, b } = await twoProcesses({
    policy: { ...policy, limits },
    policyOfFirst: { version: 1, limits },
  })
  const opensAt = clock.now()
  await collect(4, b)
  await clock.runUntil(opensAt + 5 * minute)
  // It reads from the record that a digest waits in the limits of the recipient, and lets it move up if it can.
  const { id } = await a.post()
  await clock.runUntil(opensAt + 12 * minute)
  const [digest, ...more] = sentBy(a, b).filter((each) => each.id !== id)
  assert.deepEqual([digest?.message.data && totalOf(digest), more.length], [4, 0])
  assert.ok(digest!.at - opensAt <= 10 * minute + 6 * second, `${digest!.at - opensAt}`)
  await a.stop()
  await b.stop()
})

test('a digest that no policy has any more sends its items one by one, half a minute late where another process may have it', async () => {
  const { clock, a, b } = await twoProcesses({ policy, policyOfFirst: { version: 1, limits: [] } })
  const opensAt = clock.now()
  await collect(2, b)
  await clock.runUntil(opensAt + minute)
  await during(b, b.reload({ version: 1, limits: [] }))
  await clock.runUntil(opensAt + 11 * minute)
  const sent = sentBy(a, b)
  assert.equal(sent.length, 2)
  for (const { at } of sent) assert.ok(Math.abs(at - opensAt - 10.5 * minute) <= second, `${at - opensAt}`)
  await a.stop()
  await b.stop()
})

test('a digest that another process has put off collects a newcomer for a window', async () => {
  const limits = [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'delay' }]
  const { clock, a, b } = await twoProcesses({ policy: { ...policy, limits }, sharesLimits: true })
  // The first process closes the digests of both, and the second one accepts.
  await clock.runUntil(clock.now() + minute)
  await b.post({ actor: 'bob', content: { subject: 'bob', text: 'bob' } })
  await collect(2, b)
  // Their author is at the cap, so the digest is put off by a day.
  await clock.runUntil(clock.now() + 60 * minute)
  assert.equal(sentBy(a, b).length, 1)
  const beginsAt = clock.now()
  const ofEve: Notification[] = []
  for (let index = 0; index < 3; index += 1) {
    ofEve.push(await b.post({ ...item(index), actor: 'eve' }))
    await clock.runUntil(clock.now() + minute)
  }
  await clock.runUntil(beginsAt + 11 * minute)
  const later = sentBy(a, b).filter(({ at }) => at >= beginsAt)
  assert.deepEqual(
    later.map(({ at }) => at - beginsAt),
    [10 * minute],
    'they leave together',
  )
  assert.deepEqual(later.map(totalOf), [3])
  assert.deepEqual(
    ofEve.map(({ dueAt }) => dueAt - beginsAt),
    [10 * minute, 10 * minute, 10 * minute],
  )
  await a.stop()
  await b.stop()
})

for (const [what, items] of [
  ['a digest', 2],
  ['an item that leaves a digest alone', 1],
] as const)
  test(`${what} keeps its place in the limits where another process had begun to close the digest, and writes that too late`, async () => {
    const limits = [{ name: 'hourly', for: 'any', max: '1/h', over: 'delay' }]
    const email = { provider: 'sandbox', accounts: [{ id: 'main', rate: '1/30s' }] }
    const { clock, a, b } = await twoProcesses({
      policy: { ...policy, limits },
      config: { pools: { email } },
      sharesLimits: true,
      wrapStore: (store, id) =>
        id === 'a'
          ? store
          : overriding(store, {
              async commit(change) {
                if (change.digests?.some(({ kind }) => kind === 'close') === true)
                  await new Promise<void>((end) => clock.at(clock.now() + 5 * second, end))
                return store.commit(change)
              },
            }),
    })
    const closesAt = clock.now() + 10 * minute
    await collect(items, a)
    await clock.runUntil(closesAt - second)
    // The account is called, and has nothing free when the digest closes.
    await a.post({ recipient: 'bob' })
    const [digest] = await b.gateway.store.dueDigests(closesAt, 1)
    const closing = b.gateway.gate.closeDigest(digest!)
    await during(b, closing)
    assert.deepEqual(sentBy(a, b).length, 1, 'it waits in the queue')
    const newcomer = await b.post()
    assert.deepEqual([newcomer.status, newcomer.dueAt >= closesAt + 59 * minute], ['scheduled', true])
    await clock.runUntil(closesAt + 2 * minute)
    assert.equal(sentBy(a, b).filter(({ recipient }) => recipient === 'ada').length, 1)
    await a.stop()
    await b.stop()
  })

test('a digest of a process that has died is closed by another in time', async () => {
  const { clock, a, b, declareDead } = await twoProcesses({ policy })
  const opensAt = clock.now()
  const ids = await collect(3, a)
  await clock.runUntil(opensAt + minute)
  // It does not know yet, and goes on trying.
  declareDead('a')
  await clock.runUntil(opensAt + 11 * minute)
  assert.deepEqual(
    b.sent().map(({ at }) => at - opensAt),
    [10 * minute],
  )
  assert.deepEqual(
    await statesOf(b, ids),
    Array.from(ids, () => 'merged'),
  )
  await b.stop()
})

const openJob = (at: Harness, count: number, name: string) =>
  at.done(at.gateway.jobs.open({ caller: mine, work: workFor(count, {}, name), refused: [] }))

test('a batch in the background is worked by one process at a time, whichever has accepted it', async () => {
  const { clock, a, b } = await twoProcesses({ policy })
  const jobs = [await openJob(a, 150, 'first'), await openJob(b, 150, 'second')]
  await clock.runUntil(clock.now() + minute)
  for (const job of jobs) {
    const { status, taken, counts } = await stateOf(a, job)
    assert.deepEqual({ status, taken, counts }, { status: 'done', taken: 150, counts: { delivered: 150 } })
  }
  const recipients = sentBy(a, b).map(({ recipient }) => recipient)
  assert.equal(recipients.length, 300)
  assert.equal(new Set(recipients).size, 300)
  assert.equal(a.gateway.jobs.running() + b.gateway.jobs.running(), 0)
  await a.stop()
  await b.stop()
})

test('a batch in the background goes on at another process when its process dies', async () => {
  // The first process accepts the batch, and has accepted no recipient when it dies.
  const { clock, a, b, declareDead } = await twoProcesses({ policy, claims: false })
  const job = await openJob(a, 300, 'r')
  declareDead('a')
  await clock.runUntil(clock.now() + 10 * minute)
  const { status, taken, counts } = await stateOf(b, job)
  assert.deepEqual({ status, taken, counts }, { status: 'done', taken: 300, counts: { delivered: 300 } })
  await b.stop()
})

test('a batch that another process cancels accepts no further recipient', async () => {
  for (const [opener, canceller] of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    const both = await twoProcesses({ policy })
    const { clock } = both
    const opening = both[opener].gateway.jobs.open({ caller: mine, work: workFor(400), refused: [] })
    let job: Job | undefined
    void opening.then((opened) => {
      job = opened
    })
    for (let turns = 0; job === undefined && turns < 1_000; turns += 1) await Promise.resolve()
    assert.ok(job !== undefined)
    await during(both.a, both[canceller].gateway.jobs.cancel(job))
    const { taken } = await stateOf(both.a, job)
    await clock.runUntil(clock.now() + minute)
    const after = await stateOf(both.a, job)
    assert.equal(after.status, 'cancelled')
    assert.equal(after.taken, taken)
    assert.ok(taken < 400)
    await both.a.stop()
    await both.b.stop()
  }
})

test('the cancellation of a batch goes on at another process when its process dies in the middle', async () => {
  const { clock, a, b, declareDead } = await twoProcesses({ policy })
  const work = workFor(150, { sendAt: clock.now() + 60 * minute })
  const job = await a.done(a.gateway.jobs.open({ caller: mine, work, refused: [] }))
  await clock.runUntil(clock.now() + minute)
  assert.deepEqual((await stateOf(b, job)).counts, { scheduled: 150 })
  a.gateway.jobs.cancel((await b.gateway.store.job(tenant, job.id))!).catch(() => undefined)
  for (let turns = 0; turns < 10_000; turns += 1) {
    await Promise.resolve()
    if (((await stateOf(b, job)).counts.cancelled ?? 0) > 0) break
  }
  declareDead('a')
  const { cancelled = 0, scheduled = 0 } = (await stateOf(b, job)).counts
  assert.ok(cancelled > 0 && scheduled > 0, `${cancelled} and ${scheduled}`)
  await clock.runUntil(clock.now() + 10 * second)
  assert.deepEqual((await stateOf(b, job)).counts, { cancelled: 150 })
  await b.stop()
})
