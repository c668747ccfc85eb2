import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { Provider, SendResult, Store } from '../../src/ports.ts'
import type { RedriveRequest } from '../../src/stages.ts'
import { broken, createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

const unknown = { outcome: 'unknown', detail: 'reset after the request was written' } as const

/** Creates a dead letter that was rejected six times, and one with an unknown outcome. */
async function withDeadLetters() {
  let isUp = false
  const { provider, calls } = createScripted((number) => {
    if (number === 1) return unknown
    return isUp ? delivered : broken
  })
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    parts: { providers: [provider] },
  })
  const perhaps = await harness.post({ content: { subject: 'a', text: 'a' } })
  await harness.runFor(second)
  const exhausted = await harness.post({ content: { subject: 'b', text: 'b' } })
  await harness.runFor(hour)
  const before = calls.length
  return {
    harness,
    perhaps,
    exhausted,
    called: () => calls.length - before,
    recover: () => {
      isUp = true
    },
    redrive: (request: RedriveRequest) => harness.done(harness.gateway.gate.redrive(request)),
  }
}

test('a redrive by channel leaves dead letters of unknown outcome, which only their cause, id or all includes', async () => {
  for (const [request, redriven] of [
    [{ channel: 'email' }, 1],
    [{ cause: 'outcome_unknown' }, 1],
    [{ all: true }, 2],
    [{ channel: 'email', all: true }, 2],
  ] as const) {
    const { harness, redrive, recover } = await withDeadLetters()
    recover()
    assert.equal((await redrive({ ...request, dryRun: true })).redriven, redriven)
    assert.equal((await redrive(request)).redriven, redriven, JSON.stringify(request))
    await harness.stop()
  }
  const { harness, perhaps, redrive, recover } = await withDeadLetters()
  recover()
  assert.deepEqual(await redrive({ ids: [perhaps.id] }), { redriven: 1, left: [] })
  await harness.stop()
})

test('a dry run of a redrive counts letters and moves none', async () => {
  const { harness, exhausted, redrive, called } = await withDeadLetters()
  assert.deepEqual(await redrive({ all: true, dryRun: true }), { redriven: 2, left: [] })
  await harness.runFor(second)
  assert.equal(called(), 0)
  assert.equal((await harness.notification(exhausted.id)).status, 'dead')
  await harness.stop()
})

test('a redrive reports each id that is no dead letter, with the reason', async () => {
  const { harness, exhausted, perhaps, redrive, recover } = await withDeadLetters()
  recover()
  const expired = await harness.post({
    expiresAt: harness.clock.now() + second,
    sendAt: harness.clock.now() + hour,
  })
  const cancelled = await harness.post({ sendAt: harness.clock.now() + hour })
  await harness.done(harness.gateway.gate.cancel('default', cancelled.id))
  await harness.runFor(2 * second)
  const ids = [exhausted.id, expired.id, cancelled.id, 'unheard-of']
  assert.deepEqual(await redrive({ ids, caller: 'default' }), {
    redriven: 1,
    left: [
      { notificationId: expired.id, why: 'expired' },
      { notificationId: cancelled.id, why: 'cancelled' },
      { notificationId: 'unheard-of', why: 'not_dead' },
    ],
  })
  const elsewhere = await redrive({ ids: [cancelled.id], caller: 'other' })
  assert.deepEqual(elsewhere.left, [{ notificationId: cancelled.id, why: 'not_dead' }])
  assert.equal((await harness.notification(perhaps.id)).status, 'dead')
  await harness.stop()
})

test('a dead letter of a tenant with a full queue stays dead and is reported', async () => {
  const { provider } = createScripted(() => broken)
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited', waiting: 1 } } },
    parts: { providers: [provider] },
  })
  const { id } = await harness.post({})
  await harness.runFor(hour)
  await harness.post({ sendAt: harness.clock.now() + 2 * hour })
  const answer = await harness.done(harness.gateway.gate.redrive({ all: true }))
  assert.deepEqual(answer, { redriven: 0, left: [{ notificationId: id, why: 'queue_full' }] })
  assert.equal((await harness.notification(id)).status, 'dead')
  await harness.stop()
})

test('a dead letter of a channel without a pool stays dead and is not counted, also in a dry run', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-redrive-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const pool = { provider: 'sandbox', accounts: [{ id: 'a' }] }
  const policy = { version: 1, limits: [] }
  let isUp = false
  const { provider } = createScripted(() => (isUp ? delivered : broken))
  const start = (pools: object, at?: number) =>
    createHarness({
      file,
      policy,
      config: { pools: { websocket: pool, ...pools } },
      parts: { providers: [provider] },
      ...(at === undefined ? {} : { start: at }),
    })
  const first = await start({ sms: pool, email: pool })
  const gone = await first.post({ channel: 'sms' })
  const served = await first.post({ channel: 'email' })
  await first.runFor(hour)
  await first.stop()

  isUp = true
  const harness = await start({ email: pool }, first.clock.now())
  const before = await harness.notification(gone.id)
  assert.deepEqual([before.status, before.timeline.at(-1)?.reason], ['dead', 'attempts_exhausted'])
  const redrive = (request: RedriveRequest) => harness.done(harness.gateway.gate.redrive(request))
  assert.deepEqual(await redrive({ all: true, dryRun: true }), { redriven: 1, left: [] })
  const left = [{ notificationId: gone.id, why: 'unserved' }]
  assert.deepEqual(
    await redrive({ ids: [gone.id] }),
    { redriven: 0, left },
    'the id that was named is answered',
  )
  assert.deepEqual(await redrive({ ids: [gone.id], dryRun: true }), { redriven: 0, left })
  assert.deepEqual(await redrive({ all: true }), { redriven: 1, left: [] })
  await harness.runFor(minute)
  assert.deepEqual(await harness.notification(gone.id), before, 'not even its timeline has grown')
  assert.equal((await harness.notification(served.id)).status, 'delivered')
  await harness.stop()

  const back = await start({ sms: pool, email: pool }, harness.clock.now())
  const answer = await back.done(back.gateway.gate.redrive({ ids: [gone.id] }))
  assert.deepEqual(answer, { redriven: 1, left: [] })
  await back.runFor(minute)
  assert.equal((await back.notification(gone.id)).status, 'delivered')
  await back.stop()
})

test('a dead letter that cannot be decided does not stop others, and its error is the answer where none is redriven', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-redrive-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const policy = { version: 1, limits: [] }
  const { provider } = createScripted(() => broken)
  const first = await createHarness({ file, policy, parts: { providers: [provider] } })
  await first.done(
    first.gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', timeZone: 'Europe/Rome' }),
  )
  const eve = await first.post({ recipient: 'eve' })
  const letters = [await first.post({ recipient: 'bob' }), await first.post({ recipient: 'zoe' })]
  await first.runFor(hour)
  await first.stop()
  const db = new DatabaseSync(file)
  assert.equal(db.prepare("UPDATE recipients SET body = replace(body, 'Rome', 'Oslo')").run().changes, 1)
  db.close()

  const harness = await createHarness({ file, policy, start: first.clock.now() })
  const redrive = (request: RedriveRequest) => harness.done(harness.gateway.gate.redrive(request))
  assert.equal((await redrive({ all: true })).redriven, letters.length)
  await harness.runFor(minute)
  for (const { id } of letters) assert.equal((await harness.notification(id)).status, 'delivered')
  await assert.rejects(redrive({ ids: [eve.id] }), /A row of the store .* is damaged/)
  assert.equal((await harness.notification(eve.id)).status, 'dead')
  await harness.stop()
})

test('a redrive takes the room of a letter anew where its count was filled again meanwhile, eight times at most', async () => {
  let refusals = 0
  let refusalsMax = 2
  const filledAgain = (store: Store): Store =>
    overriding(store, {
      async commit(change) {
        if (refusals >= refusalsMax || change.moves?.[0]?.before.status !== 'dead')
          return store.commit(change)
        refusals += 1
        return { applied: false, conflicts: [{ kind: 'generation', key: 'default' }] }
      },
    })
  const { provider } = createScripted((number) => (number <= 2 ? unknown : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    // A place that a try keeps would be missed by the next one.
    config: { tenants: { default: { waiting: 3 } } },
    parts: { providers: [provider] },
    wrap: filledAgain,
  })
  const redrive = (request: RedriveRequest) => harness.done(harness.gateway.gate.redrive(request))
  const [{ id }, { id: other }] = [await harness.post(), await harness.post()]
  await harness.runFor(second)
  for (const each of [id, other]) assert.equal((await harness.notification(each)).status, 'dead')
  assert.deepEqual(await redrive({ ids: [id], all: true }), { redriven: 1, left: [] })
  assert.equal(refusals, 2)
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).status, 'delivered')

  refusalsMax = Number.POSITIVE_INFINITY
  refusals = 0
  await assert.rejects(redrive({ ids: [other], all: true }), {
    code: 'STATE_UNAVAILABLE',
    message: /Redrive it again/,
  })
  assert.equal(refusals, 8)
  assert.equal((await harness.notification(other)).status, 'dead')
  refusalsMax = 0
  assert.deepEqual(await redrive({ ids: [other], all: true }), { redriven: 1, left: [] })
  await harness.runFor(second)
  assert.equal((await harness.notification(other)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('a redrive leaves alone a letter that was redriven automatically meanwhile and is being sent', async () => {
  const read = Promise.withResolvers<void>()
  const sending = Promise.withResolvers<void>()
  const redriven = Promise.withResolvers<void>()
  const scripted = createScripted((number) => (number === 1 ? throttled('60') : delivered))
  const provider: Provider = {
    ...scripted.provider,
    async send(...call): Promise<SendResult> {
      const result = await scripted.provider.send(...call)
      if (result !== delivered) return result
      sending.resolve()
      await redriven.promise
      return result
    },
  }
  // The operator's page is read before the automatic redrive, and answered while the letter is being sent.
  const late = (store: Store): Store =>
    overriding(store, {
      async deadLetters(query) {
        const page = await store.deadLetters(query)
        if (query.priority !== undefined) return page
        read.resolve()
        await sending.promise
        return page
      },
    })
  const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1s' }
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { pools: { email: pool, websocket: pool } },
    parts: { providers: [provider] },
    wrap: late,
  })
  const { id } = await harness.post()
  await harness.runFor(10 * second)
  assert.equal((await harness.notification(id)).status, 'dead')
  const redriving = harness.gateway.gate.redrive({ ids: [id] })
  await harness.done(read.promise)
  await harness.runFor(minute)
  assert.deepEqual(await harness.done(redriving), {
    redriven: 0,
    left: [{ notificationId: id, why: 'not_dead' }],
  })
  redriven.resolve()
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('a redrive with a limit takes the oldest letters, tells if there are more, and causes select several', async () => {
  const { harness, exhausted, perhaps, redrive, recover } = await withDeadLetters()
  recover()
  const causes = ['outcome_unknown', 'attempts_exhausted'] as const
  assert.deepEqual(await redrive({ causes: ['poison'], limit: 5 }), { redriven: 0, left: [], more: false })
  assert.deepEqual(await redrive({ causes, limit: 1, dryRun: true }), { redriven: 1, left: [], more: true })
  assert.deepEqual(await redrive({ causes, limit: 1 }), { redriven: 1, left: [], more: true })
  await harness.runFor(second)
  assert.equal((await harness.notification(perhaps.id)).status, 'delivered', 'the oldest')
  assert.equal((await harness.notification(exhausted.id)).status, 'dead')
  assert.deepEqual(await redrive({ causes, limit: 1 }), { redriven: 1, left: [], more: false })
  await harness.stop()
})
