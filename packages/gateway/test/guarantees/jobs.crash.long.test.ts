/**
 * A batch in the background is accepted once and as a whole, whatever happens to the process. First in virtual time,
 * cut off at every one of its commits in turn; then with real processes: jobs are posted while the gateway is killed
 * again and again, in the middle of their steps, and the client and the provider outlive every kill.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JobWork } from '../../src/ports.ts'
import { createSite, type Site, startSink } from '../child.ts'
import { createHarness, minute, second, seeded, testSeed } from '../harness.ts'
import { type Mortal, mortal } from './mortal.ts'

const jobs = Number(process.env.SLUICE_CRASH_JOBS ?? 8)
const kills = Number(process.env.SLUICE_CRASH_KILLS ?? 4)
/** Where every kill came too late, jobs and kills follow until one meets a job in the middle; so many kills at most. */
const killsMax = kills + 20
const jobsPerKill = Math.ceil(jobs / kills)
const recipients = 500
/** Calls under way to the provider at most, and so the doubles that one kill can make. */
const concurrency = 64

const nameOf = (job: number, index: number): string => `job-${job}-person-${index}`

function bodyOf(job: number): object {
  return {
    recipients: Array.from({ length: recipients }, (_, index) => ({
      id: nameOf(job, index),
      email: `${nameOf(job, index)}@example.com`,
    })),
    channel: 'email',
    content: { subject: `Job ${job}`, text: 'Hello' },
  }
}

/** Posts it under one key until it is answered; every answer of acceptance is the same. */
async function post(site: Site, job: number): Promise<string> {
  const headers = { 'idempotency-key': `job-${job}`, 'x-module-id': `module-${job % 3}` }
  for (;;) {
    const answer = await site
      .call('POST', '/api/v1/notifications/batch', bodyOf(job), headers)
      .catch(() => undefined)
    if (answer?.status === 202) return answer.json<{ jobId: string }>().jobId
    assert.ok(answer === undefined || [409, 503].includes(answer.status), answer?.text)
    await sleep(20)
  }
}

/** How many jobs stand in the middle on the disk of a gateway that was killed; each has what its progress says. */
function brokenOff(site: Site): number {
  const db = new DatabaseSync(join(site.folder, 'data', 'sluice.db'))
  try {
    const rows = db
      .prepare(
        'SELECT taken, total, (SELECT count(*) FROM notifications n WHERE n.job = j.id) AS accepted FROM jobs j',
      )
      .all()
    for (const { taken, accepted } of rows)
      assert.equal(accepted, taken, 'the job and what it accepted agree')
    return rows.filter(({ taken, total }) => Number(taken) > 0 && Number(taken) < Number(total)).length
  } finally {
    db.close()
  }
}

/** Until this process has accepted some of a job, two seconds at most: how long that takes is the machine's. */
async function jobUnderWay(site: Site): Promise<void> {
  const until = performance.now() + 2_000
  while (performance.now() < until) {
    const { text } = await site.call('GET', '/metrics')
    if (/^sluice_accepted_total\{channel="email",.*\} [1-9]/m.test(text)) return
    await sleep(2)
  }
}

interface Progress {
  readonly status: string
  readonly total: number
  readonly counts: Readonly<Record<string, number>>
}

const progress = async (site: Site, id: string): Promise<Progress> =>
  (await site.call('GET', `/api/v1/jobs/${id}`)).json<Progress>()

async function delivered(site: Site, ids: readonly string[]): Promise<void> {
  const until = performance.now() + 90_000
  while (performance.now() < until) {
    const all = await Promise.all(ids.map((id) => progress(site, id)))
    if (all.every(({ counts }) => counts.delivered === recipients)) return
    await sleep(100)
  }
}

async function membersOf(site: Site, id: string): Promise<readonly string[]> {
  const page = (await site.call('GET', `/api/v1/notifications?limit=500&job=${id}`)).json<{
    items: { recipient: string; jobId: string }[]
    nextCursor: string | null
  }>()
  assert.equal(page.nextCursor, null)
  assert.ok(page.items.every(({ jobId }) => jobId === id))
  return page.items.map(({ recipient }) => recipient)
}

const policy = { version: 1, limits: [] }
const startAt = Date.UTC(2026, 10, 21, 12)
/** Six steps. */
const few = 105
const work: JobWork = {
  message: {
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { text: 'Hello' },
    // So that every commit of the first life is one of the job.
    sendAt: startAt + 5 * minute,
  },
  recipients: Array.from({ length: few }, (_, index) => ({
    id: nameOf(0, index),
    email: `${nameOf(0, index)}@example.com`,
  })),
}

/** A life up to its n-th commit; false where it has not as many. */
async function live(file: string, copy: string, commits: number, how: 'before' | 'after'): Promise<boolean> {
  let life: Mortal | undefined
  const harness = await createHarness({
    policy,
    file,
    start: startAt,
    wrap: (store) => {
      life = mortal(store, file, copy)
      return life.store
    },
  })
  life!.arm(commits, how, () => {})
  const caller = { tenant: 'default', module: 'default' }
  void harness.gateway.jobs.open({ caller, work, refused: [] })
  await harness.runFor(minute)
  if (life!.dead) return true
  await harness.stop()
  return false
}

/** The life after: everybody of a job that is on disk has one notification, and each has arrived. */
async function goOn(copy: string): Promise<void> {
  const harness = await createHarness({ policy, file: copy, start: startAt + minute + second })
  await harness.runFor(5 * minute)
  const { items } = await harness.gateway.store.list({ tenant: 'default', limit: 1_000 })
  const [job] = items
  if (job !== undefined) {
    const names = items.map(({ to }) => to.id)
    assert.equal(new Set(names).size, few, 'everybody has a notification')
    assert.equal(names.length, few, 'nobody has two')
    assert.ok(items.every((each) => each.status === 'delivered' && each.job === job.job))
    assert.equal((await harness.gateway.store.job('default', job.job!))?.status, 'done')
    assert.equal(harness.sent().length, few)
  }
  assert.deepEqual(await harness.gateway.store.runningJobs(), [])
  assert.deepEqual(harness.gateway.ledger.occupancy('default'), { queue: 0, waiting: 0, bytes: 0 })
  await harness.check()
  await harness.stop()
}

test('cut off before and after each of its commits, a job goes on where it was: nobody is lost, nobody gets it twice', async (t: TestContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-jobs-'))
  t.after(() => rmSync(folder, { recursive: true }))
  let ends = 0
  for (const how of ['before', 'after'] as const) {
    for (let commits = 1; ; commits += 1) {
      const [file, copy] = ['life', 'copy'].map((name) => join(folder, `${name}-${how}-${commits}.db`))
      if (!(await live(file!, copy!, commits, how))) break
      await goOn(copy!)
      ends += 1
    }
  }
  t.diagnostic(`${ends} ends`)
  assert.equal(ends, 2 * (1 + Math.ceil(few / 20)))
})

test(`of ${jobs} jobs of ${recipients} or more none loses or doubles anybody through ${kills} kills or more`, async (t: TestContext) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const sink = await startSink(t, 'http')
  const account = { id: 'hook', url: `${sink.url}/in`, rate: 'unlimited', concurrency }
  const pools = { email: { provider: 'webhook', accounts: [account] } }
  const site = await createSite(t, { policy, config: { pools } })
  await site.start()

  let broken = 0
  let killed = 0
  const posted: Promise<string>[] = []
  for (; killed < kills || (broken === 0 && killed < killsMax); killed += 1) {
    for (let more = 0; more < jobsPerKill; more += 1) posted.push(post(site, posted.length))
    await jobUnderWay(site)
    await sleep(chance() * 40)
    await site.kill()
    broken += brokenOff(site)
    await site.start()
  }
  const ids = await Promise.all(posted)
  await delivered(site, ids)

  const { requests } = await sink.dump()
  const arrived = requests.map(({ headers }) => headers['webhook-id'] as string)
  const doubles = arrived.length - new Set(arrived).size
  t.diagnostic(
    `${broken} jobs were broken off in the middle by ${killed} kills; ${doubles} calls repeated of at most ${killed * concurrency}`,
  )
  assert.ok(broken > 0, 'no kill met a job in the middle')
  assert.equal(new Set(ids).size, posted.length)
  for (const [job, id] of ids.entries()) {
    assert.deepEqual(await progress(site, id), {
      jobId: id,
      status: 'done',
      total: recipients,
      counts: { delivered: recipients },
    })
    const expected = Array.from({ length: recipients }, (_, index) => nameOf(job, index))
    assert.deepEqual([...(await membersOf(site, id))].sort(), expected.sort(), 'each has one notification')
    assert.equal(await post(site, job), id, 'a repetition is answered with the same job')
  }
  assert.equal(new Set(arrived).size, posted.length * recipients, 'each has arrived, and nothing else')
  assert.ok(doubles <= killed * concurrency, `${doubles} doubles`)
})
