/**
 * Records of a real Kafka, taken by real gateways: each accepted once in spite of a kill, a restarted broker, a group
 * that changes, and poison between them. `bench/intake.ts` is the same with 50,000 records and several gateways.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { EngineMissing } from '../../../../scripts/services/install.ts'
import { type Kafka, startKafka } from '../../../../scripts/services/kafka.ts'
import { missingEngine } from '../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { createDraftReader } from '../../src/http/draft-checks.ts'
import { createRecordAcceptor, type RecordOutcome } from '../../src/intake/accept-record.ts'
import { createKafkaIntake, type KafkaIntake } from '../../src/intake/kafka/consumer.ts'
import { createSite, type Site, startSink } from '../child.ts'
import { sluice } from '../cli/session.ts'
import { certificate, certificateKey } from '../sinks/certificate.ts'
import { allOf, figure } from './gateway-figures.ts'
import { type Entry, entryOf, makeTopic, poisonOf, produce, until } from './topic.ts'

/** One broker serves all tests, and is restarted by one of them. */
const folder = mkdtempSync(join(tmpdir(), 'sluice-kafka-kept-'))
const tls = { certificate, key: certificateKey }
let kafka: Kafka
let missing: string | undefined

before(async () => {
  try {
    kafka = await startKafka({ folder, tls })
  } catch (error) {
    if (!(error instanceof EngineMissing)) throw error
    missing = `${missingEngine}kafka`
  }
})
after(async () => {
  await kafka?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const accepted = (site: Site): Promise<number> => figure(site, 'sluice_notifications').catch(() => 0)

/**
 * The first test counts calls within a second, and restarts the broker. The others run between the two, while it waits
 * for the group to give up a member that was killed, which takes 10 s.
 */
let isCounting = false
let others = 0

async function runBeside(t: TestContext): Promise<void> {
  await until('no calls are counted', () => !isCounting)
  others += 1
  t.after(() => {
    others -= 1
  })
}

describe('intake from Kafka', { concurrency: 4 }, () => {
  it('accepts each record once while the gateway is killed and the broker is restarted', async (t) => {
    if (missing !== undefined) return t.skip(missing)
    isCounting = true
    t.after(() => {
      isCounting = false
    })
    const [topic, records, rate] = ['killed', 900, 300]
    const sink = await startSink(t, 'http')
    const site = await createSite(t, {
      config: {
        intake: [{ kafka: kafka.url, topic, group: topic }],
        pools: {
          webhook: {
            provider: 'webhook',
            accounts: [{ id: 'main', url: sink.url, rate: `${rate}/s`, concurrency: 100 }],
          },
        },
      },
    })
    const entries = Array.from({ length: records }, (_, n) =>
      n % 90 === 0 ? poisonOf(n, n % 4) : entryOf(n, n % 4, { channel: 'webhook' }),
    )
    const good = records - 10
    await makeTopic(kafka.url, topic, 4)
    await site.start()
    await produce(kafka.url, topic, entries.slice(0, 400))
    await until('the first records are accepted', async () => (await accepted(site)) >= 100)
    await site.kill()
    isCounting = false
    await produce(kafka.url, topic, entries.slice(400, 700), 'gzip')
    await site.start()
    await until('further records are accepted', async () => (await accepted(site)) >= 500)
    await until('no other test needs the broker', () => others === 0)
    await kafka.stop()
    kafka = await startKafka({ folder, tls, port: Number(kafka.url.split(':')[1]) })
    await produce(kafka.url, topic, entries.slice(700), 'lz4')
    await until('all records are taken', async () => (await accepted(site)) >= good)
    const delivered = 'sluice_notifications\\{status="delivered"\\}'
    await until('all are delivered', async () => (await figure(site, delivered)) >= good)
    await until(
      'the metrics tell that nothing is left',
      async () => (await figure(site, 'sluice_intake_lag')) === 0,
    )

    const ids = (await allOf(site, 'notifications?limit=500')).map(({ recipient }) => recipient!)
    assert.deepEqual([ids.length, new Set(ids).size], [good, good])
    const dead = await allOf(site, 'dead-letters?cause=poison&limit=500')
    assert.deepEqual(
      dead.map(({ record }) => Buffer.from(record!.bytes, 'base64').toString()).sort(),
      entries
        .filter((_, n) => n % 90 === 0)
        .map(({ value }) => value)
        .sort(),
    )
    const { requests } = await sink.dump()
    const times = requests.map(({ at }) => at).sort((a, b) => a - b)
    const isOver = (at: number, index: number): boolean => (times[index + rate] ?? Infinity) - at < 1_000
    assert.deepEqual(times.filter(isOver), [], 'no second holds more calls than the rate')
    assert.equal((await site.terminate()).code, 0)
  })

  it('leaves the records of a full tenant in the topic, and takes those of others meanwhile', async (t) => {
    if (missing !== undefined) return t.skip(missing)
    await runBeside(t)
    const topic = 'full'
    await makeTopic(kafka.url, topic, 3)
    // More than may be in progress over all partitions.
    const many = [0, 1].flatMap((partition) =>
      Array.from({ length: 800 }, (_, n) => entryOf(partition * 1_000 + n, partition)),
    )
    await produce(kafka.url, topic, many)
    const site = await createSite(t, {
      config: {
        intake: [{ kafka: kafka.url, topic, group: topic }],
        tenants: { acme: { rate: '1/h', modules: 'unlimited', queue: 5 } },
      },
    })
    await site.start()
    const bothArePaused = async () => (await figure(site, 'sluice_intake_partitions_paused')) === 2
    await until('the tenant is full', bothArePaused)
    await produce(
      kafka.url,
      topic,
      Array.from({ length: 50 }, (_, n) => entryOf(n, 2, { tenant: 'other' })),
    )
    await until('the records of another tenant are taken', async () => {
      return (await allOf(site, 'notifications?limit=500', 'other')).length === 50
    })
    const some = (await allOf(site, 'notifications?limit=500')).length
    assert.ok(some === 5 || some === 6, `${some} of the full tenant`)
    await until('the partitions of the full tenant stand still', bothArePaused)
    assert.equal((await site.terminate()).code, 0)
  })

  it('takes records over TLS by a user, and a second topic of the group, and a header as the key, and says what it found', async (t) => {
    if (missing !== undefined) return t.skip(missing)
    await runBeside(t)
    const topic = 'secured'
    await makeTopic(kafka.url, topic, 1)
    await makeTopic(kafka.url, 'beside', 2)
    await produce(kafka.url, 'beside', [entryOf(3, 0), entryOf(4, 1)])
    const own = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
    t.after(() => rmSync(own, { recursive: true, force: true }))
    writeFileSync(join(own, 'ca.pem'), certificate)
    const address = (password: string, mechanism: string): string =>
      `kafkas://sluice:${password}@${kafka.secure}?ca=${join(own, 'ca.pem')}&mechanism=${mechanism}`
    const check = (kafkaAddress: string, name = topic) => {
      const intake = JSON.stringify([{ kafka: kafkaAddress, topic: name }])
      writeFileSync(join(own, 'sluice.yaml'), `store: 'sqlite::memory:'\nintake: ${intake}\n`)
      return sluice(['check'], { cwd: own })
    }
    for (const mechanism of ['plain', 'scram-sha-512']) {
      const { code, out, err } = await check(address('secret', mechanism))
      assert.equal(code, 0, err)
      assert.match(
        out,
        /# Intake: Kafka at kafkas:\/\/sluice@\S+, TLS: 1 broker; the topic "secured" has 1 partition; the group "sluice" has \d members?\./,
      )
    }
    const refusals = [
      [await check(address('wrong', 'scram-sha-512')), /refuses the user, the password or the mechanism/],
      [await check(address('secret', 'plain'), 'other'), /has no topic "other"; create it there/],
      [await check(`kafkas://sluice:secret@${kafka.secure}`), /certificate of .* is not accepted/],
    ] as const
    for (const [{ code, err }, message] of refusals) {
      assert.equal(code, 2)
      assert.match(err, message)
      assert.doesNotMatch(err, /:secret|wrong/)
    }
    const [entry] = [entryOf(1, 0)]
    await produce(kafka.url, topic, [
      { ...entry!, key: 'k' },
      { ...entry!, key: 'k' },
      { ...entryOf(2, 0), key: 'k' },
    ])
    const site = await createSite(t, {
      config: {
        intake: [
          { kafka: address('secret', 'scram-sha-512'), topic, group: topic },
          { kafka: kafka.url, topic: 'beside', group: topic },
        ],
      },
    })
    await site.start()
    await until(
      'the records are taken',
      async () => (await figure(site, 'sluice_intake_records_total')) === 5,
    )
    const found = (await allOf(site, 'notifications?limit=500')).map(({ recipient }) => recipient)
    assert.deepEqual(found.sort(), ['r1', 'r3', 'r4'])
    const [poison] = await allOf(site, 'dead-letters?cause=poison')
    assert.equal(poison!.record!.offset, 2)
    assert.doesNotMatch(site.log(), /secret/)
  })

  it('accepts no record twice whose partition another member has meanwhile taken to its end', async (t) => {
    if (missing !== undefined) return t.skip(missing)
    await runBeside(t)
    const [topic, records] = ['zombie', 200]
    await makeTopic(kafka.url, topic, 4)
    const entries: readonly Entry[] = Array.from({ length: records }, (_, n) => entryOf(n, n % 4))
    await produce(kafka.url, topic, entries)
    const own = mkdtempSync(join(tmpdir(), 'sluice-kafka-'))
    t.after(() => rmSync(own, { recursive: true, force: true }))
    writeFileSync(
      join(own, 'sluice.yaml'),
      'store: sqlite:./sluice.db\ntenants: { default: { rate: unlimited, modules: unlimited } }\nlog: { level: silent }\n',
    )
    const gateway = await createGateway(loadConfig({ cwd: own, env: {} }))
    await gateway.startStages()
    t.after(() => gateway.stop())
    const asleep = Promise.withResolvers<void>()
    const sleepers: Promise<RecordOutcome>[] = []
    const take = (isZombie: boolean): KafkaIntake =>
      takeTopic(t, gateway, topic, (accept) => {
        if (!isZombie) return accept()
        const later = asleep.promise.then(accept)
        sleepers.push(later)
        return later
      })
    t.after(() => asleep.resolve())
    const zombie = take(true)
    await until('the first member has all records in hand', () => sleepers.length === records)
    const other = take(false)
    const taken = () => other.report().partitions
    await until('the second member has taken its partitions', () => {
      return taken().length === 2 && taken().every(({ next }) => next === records / 4)
    })
    asleep.resolve()
    const outcomes = await Promise.all(sleepers)
    assert.ok(outcomes.filter((outcome) => outcome === 'repeated').length >= records / 2, `${outcomes}`)
    await Promise.all([zombie.stop(), other.stop()])
    const { items } = await gateway.store.list({ tenant: 'acme', limit: 500 })
    assert.equal(items.length, records)
    assert.equal(new Set(items.map(({ to }) => to.id)).size, records)
  })
})

/** A member of the group of a topic, in this process. */
function takeTopic(
  t: TestContext,
  gateway: Awaited<ReturnType<typeof createGateway>>,
  topic: string,
  around: (accept: () => Promise<RecordOutcome>) => Promise<RecordOutcome>,
): KafkaIntake {
  const clock = createSystemClock()
  const onError = (what: string, error: unknown): void => t.diagnostic(`${what}: ${error}`)
  const acceptor = createRecordAcceptor({
    gate: gateway.gate,
    store: gateway.store,
    readDraft: createDraftReader({
      recipients: { find: async () => null, forget() {} },
      offer: {
        templates: { has: () => false, hasSubject: () => false },
        channels: new Set(['email']),
        selfAddressed: new Set(),
        needsSubject: new Set(),
        dataMaxBytes: 65_536,
      },
      clock,
    }),
    pace: { begin: () => () => undefined },
    clock,
    onError,
  })
  const intake = createKafkaIntake({
    brokers: [kafka.url],
    topic,
    group: 'zombies',
    record: gateway.store.intake,
    acceptor: { accept: (message) => around(() => acceptor.accept(message)) },
    clock,
    onAway: (error) => onError('reach the brokers', error),
    onBack: () => undefined,
    onError,
  })
  intake.start()
  t.after(() => intake.stop())
  return intake
}
