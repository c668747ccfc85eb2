/** The consumer of a topic on a real Kafka: which records it gives to the gate, and from where it reads. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { createKafkaIntake } from '../../../src/intake/kafka/consumer.ts'
import { type IntakePosition, joined } from '../../../src/ports/intake.ts'
import { type Entry, makeTopic, produce, until } from '../topic.ts'

const broker = process.env.SLUICE_TEST_KAFKA!

/** Takes a topic in a group of its own; every record is accepted. */
function takeTopic(t: TestContext, topic: string, stored: readonly IntakePosition[] = []) {
  const positions = new Map(stored.map((each) => [`${each.topicId}/${each.partition}`, each]))
  const taken: string[] = []
  const store = { answers: Promise.resolve() }
  const intake = createKafkaIntake({
    brokers: [broker],
    topic,
    group: topic,
    record: {
      positions: async (topicId) => [...positions.values()].filter((each) => each.topicId === topicId),
      async advance(advanced) {
        await store.answers
        for (const each of advanced) {
          const key = `${each.topicId}/${each.partition}`
          positions.set(key, joined(positions.get(key) ?? each, each))
        }
      },
    },
    acceptor: {
      async accept({ value }) {
        taken.push(`${value}`)
        return 'accepted'
      },
    },
    clock: createSystemClock(),
    onAway: (error) => t.diagnostic(`the brokers are away: ${error}`),
    onBack: () => undefined,
    onError: (what, error) => t.diagnostic(`${what}: ${error}`),
  })
  intake.start()
  t.after(() => intake.stop())
  return { intake, taken, store }
}

// They mostly wait, each on engines or names of its own.
describe('the consumer of a topic', { ...needs('kafka'), concurrency: 3 }, () => {
  it('takes no record of a transaction that was aborted, and each of those that were committed', async (t) => {
    const topic = `aborted-${randomUUID()}`
    await makeTopic(broker, topic, 1)
    const producers = ['one', 'other'].map(
      () =>
        new Producer({
          clientId: 'test',
          bootstrapBrokers: [broker],
          idempotent: true,
          transactionalId: randomUUID(),
          retries: 20,
          retryDelay: 250,
        }),
    )
    t.after(() => Promise.all(producers.map((producer) => producer.close())))
    const [one, other] = producers
    const send = (transaction: Awaited<ReturnType<Producer['beginTransaction']>>, value: string) =>
      transaction.send({ messages: [{ topic, partition: 0, value: Buffer.from(value) }], acks: -1 })
    const committed = await other!.beginTransaction()
    // One producer aborts twice; the records of another one lie between.
    for (const n of [1, 2]) {
      const aborted = await one!.beginTransaction()
      await send(aborted, `aborted ${n}`)
      await send(committed, `committed ${n}`)
      await aborted.abort()
    }
    await committed.commit()
    // The last one is longer than an answer of the broker: its end comes with a later one.
    const long = await one!.beginTransaction()
    for (const n of [3, 4, 5, 6]) await send(long, `aborted ${n} ${'x'.repeat(100_000)}`)
    await long.abort()
    const last = await one!.beginTransaction()
    await send(last, 'committed 3')
    await last.commit()
    const { intake, taken } = takeTopic(t, topic)
    await until('everything is read', () => taken.includes('committed 3'))
    await until('nothing is left', () => intake.report().partitions[0]!.lag === 0)
    assert.deepEqual(
      taken.map((value) => value.slice(0, 11)),
      ['committed 1', 'committed 2', 'committed 3'],
    )
  })

  it('takes a topic that was made anew from its beginning, also where the store stood still meanwhile', async (t) => {
    const topic = `anew-${randomUUID()}`
    await makeTopic(broker, topic, 1)
    await produce(broker, topic, numbered('old', 5))
    const { intake, taken, store } = takeTopic(t, topic)
    const { promise, resolve } = Promise.withResolvers<void>()
    store.answers = promise
    await until('the topic is taken', () => taken.length === 5)
    await deleteTopic(topic)
    await until('the intake has noticed', () => intake.report().awaySince !== undefined)
    await makeTopic(broker, topic, 1)
    await produce(broker, topic, numbered('new', 8))
    // The store has the positions of the old topic before it, and answers while the new one is opened.
    await wait(3_000)
    resolve()
    await until('the new topic is taken', () => taken.includes('new 7'))
    assert.deepEqual(
      taken.slice(5),
      numbered('new', 8).map(({ value }) => value),
    )
  })

  it('takes the other partitions beside one that has lost its end, and what is written there anew', async (t) => {
    const topic = `truncated-${randomUUID()}`
    await makeTopic(broker, topic, 2)
    await produce(broker, topic, [...numbered('one', 3), ...numbered('other', 3, 1)])
    const topicId = await idOf(topic)
    const { taken } = takeTopic(t, topic, [{ topicId, partition: 0, next: 100, ahead: [102] }])
    await until('the other partition is taken', () => taken.includes('other 2'), 20_000)
    await produce(broker, topic, numbered('anew', 2))
    await until('what is written anew is taken', () => taken.includes('anew 1'), 20_000)
    assert.deepEqual(taken, ['other 0', 'other 1', 'other 2', 'anew 0', 'anew 1'])
  })
})

const numbered = (word: string, count: number, partition = 0): readonly Entry[] =>
  Array.from({ length: count }, (_, n) => ({ partition, value: `${word} ${n}` }))

const adminOf = () =>
  new Admin({ clientId: 'test', bootstrapBrokers: [broker], retries: 20, retryDelay: 250 })

async function deleteTopic(topic: string): Promise<void> {
  const admin = adminOf()
  await admin.deleteTopics({ topics: [topic] })
  await admin.close()
}

async function idOf(topic: string): Promise<string> {
  const admin = adminOf()
  const metadata = await admin.metadata({ topics: [topic] })
  await admin.close()
  return metadata.topics.get(topic)!.id
}
