/** A place that becomes free while the commit of one who waits for it is under way at another gateway. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createUnrecorded } from '../../src/admission/unrecorded.ts'
import { createHarness, second } from '../harness.ts'

const policy = {
  version: 1,
  maxDelay: '1d',
  limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }],
}

for (const [answers, as] of [
  [1, 'accepted'],
  [2, 'accepted'],
  [1, 'decided'],
] as const)
  test(`one that is ${as} behind ${answers === 1 ? 'the look at its slot' : 'two of these looks'} moves up`, async (t) => {
    /** Reads that find it as it was before, where the commit of another gateway is under way. */
    let missing = 0
    let hidden = ''
    const harness = await createHarness({
      policy,
      wrap: (store) => ({
        ...store,
        async notification(tenant, id) {
          if (id !== hidden || missing === 0) return store.notification(tenant, id)
          missing -= 1
          if (as === 'accepted') return undefined
          return { ...(await store.notification(tenant, id))!, status: 'queued', undecided: true }
        },
      }),
    })
    t.after(() => harness.stop())
    const [, waits, last] = await harness.postMany(
      ['a', 'b', 'c'].map((text) => ({ content: { subject: text, text } })),
    )
    const { dueAt } = await harness.notification(waits!.id)
    hidden = last!.id
    missing = answers
    await harness.done(harness.gateway.gate.cancel('default', waits!.id))
    assert.equal(missing, answers - 1, 'its slot was looked at')
    await harness.runFor(2 * second)
    assert.equal((await harness.notification(last!.id)).dueAt, dueAt)
  })

test('one that another gateway is writing is looked at again behind one of this process that is on record first', async () => {
  const subject = { key: 'default:ada', tenant: 'default' }
  const settled: string[] = []
  const { promise: rested, resolve: wake } = Promise.withResolvers<void>()
  const unrecorded = createUnrecorded({
    async moveUpFrom(_, id) {
      settled.push(id)
      if (id === 'own') miss('theirs')
    },
    sleep: () => rested,
    isStopped: () => false,
    onError: (_, error) => assert.fail(String(error)),
  })
  function miss(id: string): void {
    unrecorded.note(id, subject)
    unrecorded.missed(id, subject)
  }
  miss('own')
  miss('theirs')
  unrecorded.recorded('own')
  wake()
  await new Promise(setImmediate)
  assert.deepEqual(settled, ['own', 'theirs'])
})
