/** Topics of a real Kafka for tests: made, and filled with records of known numbers. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { Admin, Producer } from '@platformatic/kafka'

export interface Entry {
  readonly partition: number
  readonly value: string
  /** The header `idempotency-key`. */
  readonly key?: string
}

const clientOf = (broker: string) => ({
  clientId: 'test',
  bootstrapBrokers: [broker],
  retries: 20,
  retryDelay: 250,
})

export async function makeTopic(broker: string, topic: string, partitions: number): Promise<void> {
  const admin = new Admin(clientOf(broker))
  await admin.createTopics({ topics: [topic], partitions, replicas: 1 })
  await admin.close()
}

/** Writes records to a topic, each once: a retry of a send is recognised by the broker. */
export async function produce(
  broker: string,
  topic: string,
  entries: readonly Entry[],
  compression: 'none' | 'gzip' | 'lz4' = 'none',
): Promise<void> {
  const producer = new Producer({ ...clientOf(broker), idempotent: true })
  for (let first = 0; first < entries.length; first += 2_000) {
    const messages = entries.slice(first, first + 2_000).map(({ partition, value, key }) => ({
      topic,
      partition,
      value: Buffer.from(value),
      ...(key === undefined ? {} : { headers: new Map([['idempotency-key', key]].map(bytesOf)) }),
    }))
    await producer.send({ messages, acks: -1, compression })
  }
  await producer.close()
}

const bytesOf = ([name, value]: readonly string[]): [Buffer, Buffer] => [
  Buffer.from(name!),
  Buffer.from(value!),
]

/** A record that the gateway accepts, with a recipient and a text of its own. */
export const entryOf = (
  n: number,
  partition: number,
  { tenant = 'acme', channel = 'email' } = {},
): Entry => ({
  partition,
  value: JSON.stringify({
    tenant,
    module: 'shop',
    recipient: { id: `r${n}`, email: `r${n}@example.com` },
    channel,
    content: { subject: 'Hello', text: `Hello ${n}` },
  }),
})

/** A record that is no JSON. */
export const poisonOf = (n: number, partition: number): Entry => ({
  partition,
  value: `{"tenant":"acme", ${n}`,
})

/** Waits until it is so. A question that has no answer is asked again: a busy gateway may answer late. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  ms = 120_000,
): Promise<void> {
  for (const end = Date.now() + ms; ; await wait(50)) {
    let fault: unknown
    try {
      if (await isSo()) return
    } catch (error) {
      fault = error
    }
    assert.ok(Date.now() < end, `not within ${ms} ms: ${what}${fault === undefined ? '' : ` (${fault})`}`)
  }
}
