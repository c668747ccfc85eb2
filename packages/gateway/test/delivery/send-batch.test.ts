import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { advance, type Recipient } from '../../src/model.ts'
import { createStage, queued, second, start } from './stage.ts'

test('notifications that the limits let go are called over a lease each, after the limits were asked once', async (t) => {
  const stage = await createStage(t, { started: false })
  await stage.queue(queued('x'), queued('y'))
  stage.start()
  await stage.runFor(0)
  assert.deepEqual(stage.fired, [['x', 'y']])
  assert.deepEqual(
    stage.calls.map(({ id, account }) => `${id} ${account}`),
    ['x a', 'y b'],
  )
  assert.deepEqual(
    [...stage.counted],
    [
      ['x', 0],
      ['y', 0],
    ],
  )
  assert.deepEqual(await stage.last('y'), ['delivered', undefined, 0])
})

test('a notification cancelled in the queue is neither fired nor called, and its place in the rate goes to the next', async (t) => {
  const stage = await createStage(t, { started: false, rates: ['1/10s'] })
  await stage.queue(queued('x'), queued('y'))
  await stage.cancel('x')
  stage.start()
  await stage.runFor(0)
  assert.deepEqual(stage.calls, [{ id: 'y', account: 'a', at: 0 }])
  assert.deepEqual(stage.fired, [['y']])
})

test('a notification about to be sent cannot be cancelled while the limits are asked, and can again if they delay it', async (t) => {
  const during: (string | undefined)[] = []
  const stage = await createStage(t, {
    limits: { later: 500 },
    whileFiring: (ids) => void during.push(...ids.map((id) => stage.ledger.live(id)?.status)),
  })
  await stage.queue(queued('now'), queued('later'))
  assert.deepEqual(during, ['sending', 'sending'])
  assert.equal(stage.ledger.live('later')?.status, 'queued')
  assert.deepEqual(stage.ledger.live('later')?.events, [], 'the timeline shows no call that was not made')
  await stage.runFor(second)
  assert.deepEqual(
    (await stage.record('later')).timeline.map(({ status, at }) => `${status} ${at - start}`),
    ['accepted 0', 'queued 0', 'sending 500', 'delivered 500'],
  )
})

test('a notification that goes another way while the limits are asked gives its slot back and is not called', async (t) => {
  for (const limits of [{}, { x: 5 * second }]) {
    const stage = await createStage(t, { limits, whileFiring: () => stage.cancel('x') })
    await stage.queue(queued('x'))
    assert.deepEqual([stage.calls, stage.pool.inFlight, stage.counted.size], [[], 0, 0])
    assert.equal((await stage.record('x')).status, 'cancelled')
  }
})

test('a slot that cannot be given back is reported and does not end the process', async (t) => {
  const stage = await createStage(t, { keepsSlots: true, whileFiring: () => stage.cancel('x') })
  await stage.queue(queued('x'))
  assert.deepEqual(stage.errors, ['give an instant back: the disk is away'])
  assert.equal(stage.pool.inFlight, 0)
})

test('a notification that cannot be sent leaves a call of another gateway counted, which took it over and sent it', async (t) => {
  const stage = await createStage(t, {
    firedElsewhere: { x: 5 },
    find: async () => {
      throw new SluiceError('STORE_UNAVAILABLE', 'The row is damaged.', { row: 'recipient to-x' })
    },
  })
  await stage.queue(queued('x'))
  await stage.runFor(0)
  assert.deepEqual([stage.calls, stage.fired], [[], []])
  assert.deepEqual([...stage.counted], [['x', 5]])
})

test('an opt-out saved while the limits are asked keeps a notification from being sent', async (t) => {
  const optsOut = { tenant: 'acme', id: 'to-x' } as Recipient
  const stage = await createStage(t, {
    rules: { suppression: (_, recipient) => (recipient === optsOut ? 'opted_out' : undefined) },
    whileFiring: () => stage.save(optsOut),
  })
  await stage.queue(queued('x'), queued('y'))
  await stage.runFor(0)
  assert.deepEqual(
    stage.calls.map(({ id }) => id),
    ['y'],
  )
  assert.deepEqual(await stage.last('x'), ['suppressed', 'opted_out', 0])
})

test('a notification that expires while the limits are asked is not sent', async (t) => {
  const stage = await createStage(t, { whileFiring: () => stage.wait(500) })
  const queueing = stage.queue(queued('x', { expiresAt: start + 300 }), queued('y'))
  await stage.runFor(second)
  await queueing
  assert.deepEqual(
    stage.calls.map(({ id, at }) => `${id} ${at}`),
    ['y 500'],
  )
  assert.deepEqual(await stage.last('x'), ['expired', undefined, 500])
})

test('a notification that gives its right back after its expiry expires, also while no account is free', async (t) => {
  const stage = await createStage(t, {
    rates: ['1/10s'],
    async whileFiring(ids) {
      if (!ids.includes('x')) return
      await stage.wait(500)
      throw new SluiceError('STATE_UNAVAILABLE', 'the limits are away')
    },
  })
  const queueing = stage.queue(queued('x', { expiresAt: start + 300 }))
  await stage.runFor(100)
  await stage.queue(queued('y', { priority: 'critical' }))
  await stage.runFor(second)
  await queueing
  const [status, , at] = await stage.last('x')
  assert.equal(status, 'expired')
  assert.ok(at <= 600, `after ${at} ms`)
})

test('no call is made under a right that has ended: the notification asks for another one', async (t) => {
  let rights = 0
  const stage = await createStage(t, {
    wrapLedger: (ledger) => ({
      ...ledger,
      // An engine across a network answers later, and its right ends.
      async begin(of) {
        rights += 1
        return { ...(await ledger.begin(of)), until: rights === 1 ? start - 1 : start + 250 }
      },
    }),
  })
  await stage.queue(queued('x'))
  assert.equal(rights, 2)
  assert.deepEqual(
    stage.calls.map(({ id, at }) => `${id} ${at}`),
    ['x 0'],
  )
  assert.equal((await stage.record('x')).status, 'delivered')
})

test('sends smaller batches where the limits answer too late for a large one', async (t) => {
  // A server of the limits, or this process, that needs a millisecond for each of a batch.
  const stage = await createStage(t, {
    async whileFiring(ids) {
      await stage.wait(ids.length)
      return ids.length
    },
  })
  await stage.queue(...Array.from({ length: 300 }, (_, n) => queued(`n${n}`)))
  await stage.runFor(5 * second)
  assert.equal(stage.calls.length, 300)
  assert.equal(new Set(stage.calls.map(({ id }) => id)).size, 300)
})

test('a notification whose answer of the limits is too old for its call keeps its place before later ones', async (t) => {
  let isSlow = true
  const stage = await createStage(t, {
    started: false,
    rates: ['1/s'],
    async whileFiring() {
      if (!isSlow) return 0
      isSlow = false
      await stage.wait(30)
      return 30
    },
  })
  await stage.queue(queued('first'), queued('second'), queued('third'))
  stage.start()
  await stage.runFor(5 * second)
  assert.deepEqual(
    stage.calls.map(({ id }) => id),
    ['first', 'second', 'third'],
  )
})

test('expired, opted-out and offline notifications are not fired, and each ends on record', async (t) => {
  const stage = await createStage(t, {
    rules: {
      suppression: ({ id }) => (id === 'out' ? 'opted_out' : undefined),
      away: {
        channel: 'email',
        // Another process may have to be asked.
        presence: { areConnected: async (of) => of.map(({ recipient }) => recipient !== 'to-away') },
        moveOf: (notification, events, now) =>
          advance(notification, [...events, { at: now, status: 'expired' }]),
      },
    },
  })
  await stage.queue(queued('over', { expiresAt: start }), queued('out'), queued('away'))
  assert.deepEqual([stage.fired, stage.calls, stage.pool.inFlight], [[], [], 0])
  assert.deepEqual(await stage.last('over'), ['expired', undefined, 0])
  assert.deepEqual(await stage.last('out'), ['suppressed', 'opted_out', 0])
  assert.deepEqual(await stage.last('away'), ['expired', undefined, 0])
})

test('a notification that the limits delay waits in memory up to a second, else on record, and never beyond its expiry', async (t) => {
  const stage = await createStage(t, { limits: { soon: second, end: second, later: second + 1 } })
  await stage.queue(queued('soon'), queued('end', { expiresAt: start + 300 }), queued('later'))
  assert.deepEqual(await stage.last('soon'), ['queued', undefined, 0], 'nothing was written')
  assert.deepEqual(await stage.last('later'), ['scheduled', 'recipient_limit', 0])
  assert.equal((await stage.record('later')).dueAt, start + second + 1)
  await stage.runFor(300)
  assert.deepEqual(await stage.last('end'), ['expired', undefined, 300])
  await stage.runFor(2 * second)
  assert.deepEqual(
    stage.calls.map(({ id, at }) => `${id} ${at}`),
    ['soon 1000', 'later 1001'],
  )
})

test('a notification that meets quiet hours is scheduled for their end or for its expiry', async (t) => {
  const stage = await createStage(t, {
    limits: { night: 9 * second, over: 9 * second },
    rules: { quietAt: () => 'quiet_hours' },
  })
  await stage.queue(queued('night'), queued('over', { expiresAt: start + 5 * second }))
  for (const id of ['night', 'over']) assert.deepEqual(await stage.last(id), ['scheduled', 'quiet_hours', 0])
  assert.equal((await stage.record('night')).dueAt, start + 9 * second)
  assert.equal((await stage.record('over')).dueAt, start + 5 * second)
})

test('an unavailable store loses no lease: all notifications return to the queue and are tried again soon', async (t) => {
  let failures = 1
  const stage = await createStage(t, {
    async find() {
      failures -= 1
      if (failures >= 0) throw new SluiceError('STORE_UNAVAILABLE', 'the disk is away')
      return null
    },
  })
  await stage.queue(queued('x'), queued('y'))
  assert.deepEqual([stage.calls, stage.pool.inFlight, stage.errors], [[], 0, ['dispatch: the disk is away']])
  await stage.runFor(199)
  assert.equal(stage.calls.length, 0)
  await stage.runFor(1)
  assert.deepEqual(
    stage.calls.map(({ id, at }) => `${id} ${at}`),
    ['x 200', 'y 200'],
  )
})

test('a notification on which the limits fail is quarantined, and the others of its batch are called at once', async (t) => {
  const stage = await createStage(t, {
    started: false,
    whileFiring(ids) {
      if (ids.includes('y')) throw new TypeError('no such limit')
    },
  })
  await stage.queue(queued('x'), queued('y'), queued('z'))
  stage.start()
  await stage.runFor(0)
  assert.deepEqual(
    stage.calls.map(({ id, account, at }) => `${id} ${account} ${at}`),
    ['x a 0', 'z c 0'],
  )
  assert.deepEqual([stage.pool.inFlight, stage.errors], [0, ['hand over y: no such limit']])
})

test('a quarantined notification is tried again with backoff and ends as a dead letter with the error', async (t) => {
  const stage = await createStage(t, {
    whileFiring() {
      throw new TypeError('no such limit')
    },
  })
  const tries: number[] = []
  await stage.queue(queued('x'))
  for (let ms = 0; ms <= 25_400; ms += 100) {
    while (tries.length < stage.fired.length) tries.push(ms)
    await stage.runFor(100)
  }
  assert.deepEqual(tries, [0, 200, 600, 1_400, 3_000, 6_200, 12_600, 25_400])
  assert.deepEqual(await stage.last('x'), ['dead', 'poison', 25_400])
  assert.equal(stage.counted.size, 0)
})

test('a notification that fails after the limits were asked delays no other', async (t) => {
  const stage = await createStage(t, {
    limits: { x: 9 * second },
    rules: {
      quietAt() {
        throw new TypeError('no such zone')
      },
    },
  })
  await stage.queue(queued('x'), queued('y'))
  assert.deepEqual(
    stage.calls.map(({ id }) => id),
    ['y'],
  )
  assert.deepEqual([stage.pool.inFlight, stage.errors], [0, ['hand over x: no such zone']])
})

test('a call is not made through an account that was blocked while the limits were asked', async (t) => {
  const limited = { outcome: 'rate_limited', retryAfter: '3', detail: '429' } as const
  const stage = await createStage(t, {
    rates: [''],
    whileFiring: () => (stage.fired.length === 2 ? stage.wait(500) : undefined),
    answer: async ({ id }) => {
      if (id !== 'x') return { outcome: 'delivered' }
      await stage.wait(200)
      return stage.calls.length === 1 ? limited : { outcome: 'delivered' }
    },
  })
  await stage.queue(queued('x'))
  await stage.runFor(100)
  const queueing = stage.queue(queued('y'))
  await stage.runFor(4 * second)
  await queueing
  assert.deepEqual(stage.calls.map(({ id, at }) => `${id} ${at}`).sort(), ['x 0', 'x 3200', 'y 3200'])
  await stage.runFor(second)
})

test('nothing is sent through an account that an operator holds while the limits are asked, not even its probe', async (t) => {
  const stage = await createStage(t, {
    rates: ['', ''],
    started: false,
    whileFiring: () => void stage.pool.hold('a', start + 5 * second, stage.clock.now()),
    pool: { shedding: false },
  })
  await stage.queue(queued('x'), queued('y'))
  stage.start()
  await stage.runFor(second)
  assert.deepEqual(new Set(stage.calls.map(({ account }) => account)), new Set(['b']))
  assert.equal(stage.calls.length, 2)
})

test('a notification whose recipient another process has changed is not called by what was known before', async (t) => {
  let asked = 0
  let reads = 0
  const stage = await createStage(t, {
    started: false,
    find: async (id) => {
      reads += 1
      return { tenant: 'acme', id, ...(reads > 1 ? { optOuts: [{ category: 'product' }] } : {}) }
    },
    rules: { suppression: (_, recipient) => (recipient?.optOuts === undefined ? undefined : 'opted_out') },
    wrapLedger: (ledger) => ({
      ...ledger,
      async begin(of) {
        asked += 1
        return { ...(await ledger.begin(of)), outdated: new Set(asked === 1 ? ['x'] : []) }
      },
    }),
  })
  await stage.queue(queued('x'))
  stage.start()
  await stage.runFor(second)
  assert.deepEqual([reads, stage.calls.length], [2, 0])
  assert.deepEqual((await stage.last('x')).slice(0, 2), ['suppressed', 'opted_out'])
})

test('those that the limits have let go are sent while the others of their batch are still asked about', async (t) => {
  let asked = 0
  const stage = await createStage(t, {
    started: false,
    // A server that answers part after part, 15 ms each: the answer for the first would be too old at the last.
    async whileFiring() {
      asked += 1
      await stage.wait(asked * 15)
    },
  })
  await stage.queue(...Array.from({ length: 96 }, (_, n) => queued(`n${n}`)))
  stage.start()
  await stage.runFor(second)
  assert.equal(stage.calls.length, 96)
  assert.equal(stage.fired.length, 3, 'nobody is asked about twice')
  assert.deepEqual([...new Set(stage.calls.map(({ at }) => at))], [15, 30, 45])
})
