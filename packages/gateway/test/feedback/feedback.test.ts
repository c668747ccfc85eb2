/** Feedback through a whole gateway: what a report changes at its recipient, in the timeline, and on record. */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import type { Report } from '../../src/feedback/report.ts'
import { withFeedback } from '../../src/http/timeline-feedback.ts'
import type { FeedbackHappening, FeedbackRecord } from '../../src/ports/feedback.ts'
import type { Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { during, twoProcesses } from '../guarantees/two-processes.ts'
import { createHarness, type Harness, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

const acme = { tenant: 'default' }

interface Site {
  readonly harness: Harness
  readonly told: FeedbackHappening[]
  report(reports: readonly Partial<Report>[], tenant?: string): Promise<void>
  counts(): ReturnType<Harness['gateway']['feedback']['counts']>
}

async function open(t: TestContext, policy: object = { version: 1 }): Promise<Site> {
  const harness = await createHarness({ policy })
  t.after(() => harness.stop())
  const { feedback } = harness.gateway
  const told: FeedbackHappening[] = []
  feedback.onFeedback((happening) => told.push(happening))
  return {
    harness,
    told,
    report: (reports, tenant = acme.tenant) =>
      harness.done(
        feedback.report(
          reports.map((each) => ({ type: 'open', at: harness.clock.now(), ...each })),
          { tenant },
        ),
      ),
    counts: () => feedback.counts(),
  }
}

const email = {
  channel: 'email',
  category: 'marketing',
  to: { id: 'ada', email: 'ada@example.com' },
} as const

test('an event stands in the timeline, counts once, and is told to listeners once', async (t) => {
  const { harness, told, report, counts } = await open(t)
  const { id } = await harness.post(email)
  await harness.runFor(second)
  const event = { type: 'open', notificationId: id, at: harness.start + 500 } as const
  await report([event, event])
  await Promise.all([report([event]), report([event])])
  await report([{ ...event, at: harness.start + 700 }])
  assert.equal(counts().events.open, 2, 'another instant is another event')
  assert.deepEqual(
    told.map(({ type, notificationId, category, channel, tenant, at }) => [
      ...[type, notificationId, category, channel, tenant],
      at - harness.start,
    ]),
    [
      ['open', id, 'marketing', 'email', 'default', 500],
      ['open', id, 'marketing', 'email', 'default', 700],
    ],
  )
  const [shown] = await withFeedback(harness.gateway.store.feedback, [await harness.notification(id)])
  assert.deepEqual(
    shown!.timeline.slice(-3).map(({ status, reason }) => [status, reason]),
    [
      ['delivered', undefined],
      ['delivered', 'open'],
      ['delivered', 'open'],
    ],
  )
  await harness.check()
})

test('what is reported of a notification that has not left, or left in a digest, stands in its timeline too', async (t) => {
  const { harness, report } = await open(t, {
    version: 1,
    digests: [
      {
        name: 'news',
        for: { template: 'new-comment' },
        window: '1min',
        minItems: 1,
        maxItems: 5,
        template: 'activity-digest',
      },
    ],
  })
  const item = await harness.post({ ...email, template: 'new-comment' })
  await harness.runFor(2 * minute)
  const waiting = await harness.post({ ...email, sendAt: harness.clock.now() + 60 * minute })
  await report([item, waiting].map(({ id }) => ({ type: 'click', notificationId: id })))
  const now = await Promise.all([item, waiting].map(({ id }) => harness.notification(id)))
  const shown = await withFeedback(harness.gateway.store.feedback, now)
  assert.deepEqual(
    shown.map(({ timeline }) => [timeline.at(-1)!.status, timeline.at(-1)!.reason]),
    [
      ['merged', 'click'],
      ['scheduled', 'click'],
    ],
  )
})

test('a complaint or an unsubscribe opts out of that category and channel alone', async (t) => {
  const { harness, report } = await open(t)
  for (const type of ['complaint', 'unsubscribe'] as const) {
    const to = { id: type, email: `${type}@example.com`, phone: '+15550100200' }
    const { id } = await harness.post({ ...email, to })
    await harness.runFor(second)
    await report([{ type, notificationId: id }])
    const stored = await harness.gateway.store.recipient('default', type)
    assert.deepEqual(stored?.optOuts, [{ category: 'marketing', channel: 'email' }])
    const after = async (patch: object) => (await harness.post({ ...email, to, ...patch })).decision.reason
    assert.equal(await after({}), 'opted_out')
    assert.equal(await after({ category: 'security' }), undefined)
    assert.equal(await after({ channel: 'sms' }), undefined)
  }
})

test('a complaint reaches the guard of its category once', async (t) => {
  const { harness, report } = await open(t, {
    version: 1,
    complaints: { warnAt: '0.05%', pauseAt: '0.1%', window: '7d', categories: ['marketing'] },
  })
  const { id } = await harness.post(email)
  await harness.runFor(second)
  const complaint = { type: 'complaint', notificationId: id, at: harness.start } as const
  await report([{ type: 'open', notificationId: id }, complaint, complaint])
  assert.deepEqual(
    harness.gateway.complaints.report().map(({ category, complained }) => [category, complained]),
    [['marketing', 1]],
  )
})

test('a complaint that is repeated after the recipient opted in again changes nothing', async (t) => {
  const { harness, report } = await open(t)
  const { id } = await harness.post(email)
  await harness.runFor(second)
  const complaint = { type: 'complaint', notificationId: id, at: harness.start } as const
  await report([complaint])
  await harness.done(harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada' }))
  await report([complaint])
  assert.equal((await harness.gateway.store.recipient('default', 'ada'))?.optOuts, undefined)
})

test('a permanent bounce makes the address invalid until a different one is stored', async (t) => {
  const { harness, report } = await open(t)
  const { id } = await harness.post(email)
  const waiting = await harness.post({ ...email, sendAt: harness.start + minute })
  await harness.runFor(second)
  await report([{ type: 'bounce', notificationId: id }])
  assert.equal((await harness.post(email)).status, 'queued', 'a bounce that is not permanent')
  await report([{ type: 'bounce', notificationId: id, permanent: true, detail: '550 no\0 such\nuser' }])
  const refused = await harness.post(email)
  assert.deepEqual([refused.status, refused.decision.reason], ['suppressed', 'invalid_address'])
  const upper = { ...email, to: { id: 'ada', email: 'ADA@example.com' } }
  assert.equal((await harness.post(upper)).status, 'suppressed', 'the same mailbox in other letters')
  const other = { ...email, to: { id: 'ada', email: 'ada@example.org' } }
  assert.equal((await harness.post(other)).status, 'queued', 'another address in the request')
  await harness.runFor(2 * minute)
  const held = await harness.notification(waiting.id)
  assert.deepEqual([held.status, held.timeline.at(-1)?.reason], ['suppressed', 'invalid_address'])
  const { invalid } = (await harness.gateway.store.recipient('default', 'ada'))!
  assert.deepEqual(
    invalid?.map(({ channel, address, detail }) => [channel, address, detail]),
    [['email', 'ada@example.com', '550 no such user']],
  )
})

test('what a provider says of a recipient who was erased meanwhile is not kept, and the event counts', async (t) => {
  const { harness, report } = await open(t)
  const { id } = await harness.post(email)
  await harness.runFor(second)
  await harness.done(harness.gateway.erase(acme.tenant, email.to.id))
  const detail = '550 no such user ada@example.com'
  const late = { notificationId: id, at: harness.clock.now(), detail }
  await report([
    { ...late, type: 'bounce', permanent: true },
    { ...late, type: 'complaint' },
  ])
  const kept = await harness.gateway.store.feedback.of(acme.tenant, [id])
  assert.deepEqual(
    kept.map(({ type, detail }) => [type, detail]),
    [
      ['bounce', undefined],
      ['complaint', undefined],
    ],
  )
})

test('a report that found its notification before the recipient was erased opts out what is left of the recipient, and marks no address', async (t) => {
  let meanwhile = async (): Promise<void> => {}
  const wrap = (store: Store): Store => {
    const feedback: FeedbackRecord = {
      ...store.feedback,
      async reported(ids) {
        const found = await store.feedback.reported(ids)
        await meanwhile()
        return found
      },
    }
    return overriding(store, { feedback })
  }
  const harness = await createHarness({ policy: { version: 1 }, wrap })
  t.after(() => harness.stop())
  const { gateway } = harness
  const { id } = await harness.post(email)
  await harness.runFor(second)
  meanwhile = async () => {
    meanwhile = async () => {}
    await gateway.erase(acme.tenant, email.to.id)
  }
  const detail = '550 no such user ada@example.com'
  const late = { notificationId: id, at: harness.clock.now(), detail }
  const reports = [
    { ...late, type: 'bounce', permanent: true } as const,
    { ...late, type: 'complaint' } as const,
  ]
  await harness.done(gateway.feedback.report(reports, acme))
  const optOuts = [{ category: 'marketing', channel: 'email' }]
  const { erased, ...left } = (await gateway.store.recipient(acme.tenant, email.to.id))!
  assert.ok(erased !== undefined)
  assert.deepEqual(left, { tenant: acme.tenant, id: email.to.id, optOuts })
  const kept = await gateway.store.feedback.of(acme.tenant, [id])
  assert.deepEqual(
    kept.map(({ type, detail }) => [type, detail]),
    [
      ['bounce', undefined],
      ['complaint', undefined],
    ],
  )
  assert.equal((await harness.post(email)).decision.reason, 'opted_out')
})

test('the provider’s address decides which one bounced', async (t) => {
  const { harness, report } = await open(t)
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'bob', email: 'old@example.com' }),
  )
  const stored = { ...email, to: { id: 'bob' } }
  const { id } = await harness.post(stored)
  await harness.runFor(second)
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'bob', email: 'new@example.com' }),
  )
  await report([{ type: 'bounce', notificationId: id, permanent: true, address: 'old@example.com' }])
  assert.equal((await harness.post(stored)).status, 'queued')
})

test('a domain beyond ASCII is the same in the letters in which mail servers and providers have it', async (t) => {
  const { harness, report } = await open(t)
  const to = { id: 'ada', email: 'Ada@Bücher.example' }
  const { id } = await harness.post({ ...email, to })
  await harness.runFor(second)
  await report([
    { type: 'bounce', notificationId: id, permanent: true, address: 'ada@xn--bcher-kva.example' },
  ])
  const spelt = (address: string) => harness.post({ ...email, to: { id: 'ada', email: address } })
  assert.equal((await spelt('Ada@Bücher.example')).status, 'suppressed')
  assert.equal((await spelt('ada@xn--bcher-kva.example')).status, 'suppressed')
  assert.equal((await spelt('ada@bucher.example')).status, 'queued', 'another domain')
})

test('a report about a notification of another tenant changes nothing there', async (t) => {
  const { harness, told, report, counts } = await open(t)
  const { id } = await harness.post(email)
  await harness.runFor(second)
  await report([{ type: 'complaint', notificationId: id }], 'other')
  assert.deepEqual([told, counts().waiting], [[], 1])
  assert.equal(await harness.gateway.store.recipient('default', 'ada'), undefined)
  assert.deepEqual(await harness.gateway.store.feedback.of('default', [id]), [])
  assert.deepEqual(await harness.gateway.store.feedback.of('other', [id]), [])
  await harness.runFor(11 * minute)
  assert.deepEqual([counts().waiting, counts().unknown], [0, 1], 'counted after ten minutes')
})

test('a report that overtakes its notification is tried again', async (t) => {
  const { harness, told, report } = await open(t)
  await report([{ type: 'complaint', notificationId: '01LATE' }])
  assert.deepEqual(told, [])
  await harness.runFor(30 * second)
  const late = someNotification({ id: '01LATE', tenant: 'default', attempts: 1 })
  await harness.done(harness.gateway.store.commit({ accept: [late] }))
  await harness.runFor(10 * second)
  assert.deepEqual(
    told.map(({ type, notificationId }) => [type, notificationId]),
    [['complaint', '01LATE']],
  )
})

test('a report that was acknowledged before its notification was known is tried again after a kill, and counts once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-feedback-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const [file, copy] = [join(folder, 'sluice.db'), join(folder, 'copy.db')]
  const first = await createHarness({ policy: { version: 1 }, file })
  const complaint = { type: 'complaint', at: first.start, notificationId: '01LATE' } as const
  for (let calls = 0; calls < 2; calls += 1)
    await first.done(first.gateway.feedback.report([complaint], acme))
  for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
  const clock = createVirtualClock(first.clock.now())
  await first.stop()
  const again = await createHarness({ clock, policy: { version: 1 }, file: copy })
  t.after(() => again.stop())
  const { feedback, store } = again.gateway
  await again.runFor(second)
  assert.equal(feedback.counts().waiting, 1)
  const late = someNotification({ id: '01LATE', tenant: 'default', attempts: 1 })
  await again.done(store.commit({ accept: [late] }))
  await again.runFor(10 * second)
  const events = await store.feedback.of('default', ['01LATE'])
  assert.deepEqual(
    events.map(({ type }) => type),
    ['complaint'],
  )
  assert.deepEqual([feedback.counts().waiting, await store.feedback.waiting(9)], [0, []])
  // One whose notification is not found in time ends as well.
  await again.done(feedback.report([{ ...complaint, notificationId: '01NEVER' }], acme))
  await again.runFor(11 * minute)
  assert.deepEqual([feedback.counts().unknown, await store.feedback.waiting(9)], [1, []])
})

test('reports that wait are tried again by another process when the one that took them dies', async () => {
  const { clock, a, b, declareDead } = await twoProcesses()
  await during(
    a,
    a.gateway.feedback.report([{ type: 'complaint', at: clock.now(), notificationId: '01LATE' }], acme),
  )
  declareDead('a')
  const late = someNotification({ id: '01LATE', tenant: 'default', attempts: 1, status: 'suppressed' })
  await during(b, b.gateway.store.commit({ accept: [late] }))
  await clock.runUntil(clock.now() + 10 * second)
  assert.equal((await b.gateway.store.feedback.of('default', ['01LATE'])).length, 1)
  await b.stop()
})

test('the events that are kept of one notification are bounded, and a complaint still counts', async (t) => {
  const { harness, report, counts } = await open(t)
  const { id } = await harness.post(email)
  await harness.runFor(second)
  await report(
    Array.from({ length: 200 }, (_, n) => ({ type: 'open', notificationId: id, at: harness.start + n })),
  )
  await report([{ type: 'complaint', notificationId: id }])
  assert.deepEqual([counts().events.open, counts().events.complaint], [64, 1])
  assert.equal((await harness.gateway.store.feedback.of('default', [id])).length, 65)
})
