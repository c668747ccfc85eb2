/** Batches of reports: one write of each recipient, and calls that do not wait for the changes of others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { createCorrelation } from '../../src/feedback/correlation.ts'
import type { RecipientChange } from '../../src/feedback/effects.ts'
import { createFeedback } from '../../src/feedback/feedback.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import type { FeedbackRecord } from '../../src/ports/feedback.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const by = { tenant: 'acme' }
const settledSoon = async (promise: Promise<unknown>): Promise<boolean> => {
  let isSettled = false
  void promise.finally(() => {
    isSettled = true
  })
  for (let turns = 0; turns < 20 && !isSettled; turns += 1) await new Promise(setImmediate)
  return isSettled
}

/** Feedback about three notifications, whose changes of recipients end when the test says so. */
async function open() {
  const clock = createVirtualClock(epoch)
  const store = createMemoryStore()
  const [one, two, three] = ['ada', 'ada', 'bob'].map((id, n) =>
    someNotification({ to: { id, email: `${id}@example.com` }, category: ['news', 'tips', 'news'][n]! }),
  )
  await store.commit({ accept: [one!, two!, three!] })
  const questions: string[] = []
  const record = new Proxy(store.feedback as FeedbackRecord, {
    get(target, name: keyof FeedbackRecord) {
      questions.push(name)
      return (target[name] as (...args: unknown[]) => unknown).bind(target)
    },
  })
  const edits: { readonly id: string; readonly change: RecipientChange; readonly end: () => void }[] = []
  const feedback = createFeedback({
    record,
    correlate: createCorrelation({ record, keys: createSentKeys(() => Buffer.from('key')), clock }),
    edit: (_tenant, id, change) =>
      new Promise((resolve) => {
        const end = () => resolve(change(undefined))
        edits.push({ id, change, end })
      }),
    clock,
    tries: () => true,
    isShared: false,
    onUnknown: () => {},
    onError: (what, error) => assert.fail(`${what}: ${String(error)}`),
  })
  const kept = async (id: string) => (await store.feedback.of('acme', [id])).map(({ type }) => type)
  return { feedback, edits, questions, kept, ids: [one!.id, two!.id, three!.id] as const }
}

const report = (type: 'open' | 'complaint' | 'bounce', notificationId: string, at = epoch) => ({
  ...{ type, notificationId, at },
  ...(type === 'bounce' ? { permanent: true } : {}),
})

test('all that a batch changes at a recipient is one write', async () => {
  const { feedback, edits, kept, ids } = await open()
  const [one, two, three] = ids
  const reports = [
    report('complaint', one),
    report('complaint', two),
    report('open', one),
    report('bounce', one),
    report('complaint', three),
  ]
  const taken = feedback.report(reports, by)
  assert.equal(await settledSoon(taken), false)
  assert.deepEqual(
    edits.map(({ id, change }) => {
      const { optOuts, invalid } = change(undefined)
      return [id, optOuts?.map(({ category }) => category), invalid?.map(({ address }) => address)]
    }),
    [
      ['ada', ['news', 'tips'], ['ada@example.com']],
      ['bob', ['news'], undefined],
    ],
  )
  assert.deepEqual(await kept(one), [], 'an event is applied before it is recorded')
  for (const { end } of edits) end()
  await taken
  assert.deepEqual(await kept(one), ['complaint', 'open', 'bounce'], 'in the order of their report')
})

test('a report that changes nobody waits for no change of others, and one about the same notification does', async () => {
  const { feedback, edits, kept, ids } = await open()
  const [one, two, three] = ids
  const complained = feedback.report([report('complaint', one)], by)
  const opened = feedback.report([report('open', two)], by)
  assert.deepEqual([await settledSoon(opened), await settledSoon(complained)], [true, false])
  const later = feedback.report([report('open', three)], by)
  assert.equal(await settledSoon(later), true, 'a batch behind it')
  // The same complaint again must not be answered before the first is on record.
  const again = feedback.report([report('complaint', one), report('open', one)], by)
  assert.deepEqual([await settledSoon(again), edits.length], [false, 1])
  edits[0]!.end()
  await Promise.all([complained, again])
  assert.deepEqual([await kept(one), edits.length], [['complaint', 'open'], 1])
  assert.deepEqual([feedback.counts().events.complaint, feedback.counts().events.open], [1, 3])
})

test('reports that arrive while others are written share three questions to the store', async () => {
  const { feedback, questions, ids } = await open()
  const first = feedback.report([report('open', ids[0])], by)
  await Promise.resolve()
  const others = Array.from({ length: 200 }, (_, n) =>
    feedback.report([report('open', ids[n % 3]!, epoch - n)], by),
  )
  await Promise.all([first, ...others])
  assert.deepEqual(questions, ['reported', 'keysOf', 'keep', 'reported', 'keysOf', 'keep'])
})
