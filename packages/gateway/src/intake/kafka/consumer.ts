/**
 * Takes the records of a Kafka topic as a member of a consumer group. The group only says which partitions are whose:
 * what was accepted stands in the store, so a member that has lost a partition without knowing it accepts nothing twice.
 * The offsets that the group commits are a hint for tools that show the lag. A record that cannot be accepted now stays in
 * the topic, and its partition pauses; the others go on.
 */
import { randomUUID } from 'node:crypto'
import { Consumer, ListOffsetTimestamps } from '@platformatic/kafka'
import type { IntakePosition, IntakeRecord } from '../../ports/intake.ts'
import type { Clock } from '../../ports.ts'
import type { IntakeReport } from '../../reports.ts'
import type { RecordAcceptor } from '../accept-record.ts'
import type { IntakeMessage } from '../read-record.ts'
import { createWindow, type Window } from '../window.ts'
import { type KafkaAddress, securityOf } from './address.ts'
import { assignPartitions } from './assign.ts'
import { type Answer, committedBatches } from './committed-batches.ts'

export interface KafkaIntakeOptions extends KafkaAddress {
  readonly topic: string
  readonly group: string
  readonly record: Pick<IntakeRecord, 'positions' | 'advance'>
  readonly acceptor: RecordAcceptor
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** The brokers do not answer; the intake tries again until they do. Called once until `onBack`. */
  readonly onAway: (error: unknown) => void
  readonly onBack: (awayMs: number) => void
  readonly onError: (what: string, error: unknown) => void
}

export interface KafkaIntake {
  /** Begins to take records; returns at once and joins the group as soon as a broker answers. */
  start(): void
  /** Resolves when the records in progress are settled and their positions on disk. */
  stop(): Promise<void>
  report(): IntakeReport
}

/** The members of a group that are silent for so long lose their partitions, ms. */
const sessionMs = 10_000
const heartbeatMs = 3_000
/** A request for records waits for so long where there are none, ms; a partition that gets room is read after it. */
const fetchMs = 250
/** Bytes of one answer, and of one partition in it: some 500 records. */
const answerBytes = 2 ** 22
const partitionBytes = 2 ** 18
/**
 * Records in progress over all partitions, and their bytes, above which no further answer is asked for: one answer may go
 * beyond it, by `windowMax` records of each partition.
 */
const workingMax = 1_000
const workingBytesMax = 2 ** 24
/** Positions are recorded this often, ms. */
const saveMs = 1_000
/** The delay before another try, ms: of a request to the brokers, and of a record that cannot be accepted now. */
const againMs = 1_000
/** Between two looks for partitions that may be read, ms. */
const lookMs = 20
/** A stop waits for an answer of the brokers at most so long, ms. */
const stopMs = 2_000
/** The broker has written its own time, once for all records of the batch. */
const appendTimeBatch = 1 << 3

interface Taken {
  readonly topicId: string
  readonly partition: number
  readonly window: Window
  isMine: boolean
  isChanged: boolean
  /** The instant from which a partition with a record that waits is read again. */
  againAt: number
  /** The end of the partition, as of the last answer. */
  end: number
}

export function createKafkaIntake(options: KafkaIntakeOptions): KafkaIntake {
  const { topic, group, record, acceptor, clock, onAway, onBack, onError } = options
  /** Joining again after a broker was away takes the place of the member that could not leave, at once. */
  const instance = randomUUID()
  let partitions = new Map<number, Taken>()
  const working = new Set<Promise<void>>()
  let workingBytes = 0
  const counts = { accepted: 0, repeated: 0, poison: 0 }
  let consumer: Consumer | undefined
  /** The member that has opened the partitions: a later one may know another topic by the same name. */
  let opener: Consumer | undefined
  let isRunning = false
  /** The assignment has changed, or a request has failed: partitions are opened anew before the next request. */
  let isOutdated = true
  /** The partitions that the topic had when the group was joined: a new one is assigned by joining again. */
  let partitionCount: number | undefined
  let awaySince: number | undefined
  let loop: Promise<void> | undefined
  let saving: Promise<void> | undefined
  let disarm: (() => void) | undefined
  let wake: (() => void) | undefined
  /** Goes on with reading. Not a race of the promises in progress: each race would add a reaction to all of them. */
  let relieve: (() => void) | undefined

  const wait = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const end = clock.at(clock.now() + ms, resolve)
      wake = () => {
        end()
        resolve()
      }
    })

  async function run(): Promise<void> {
    while (isRunning) {
      try {
        consumer ??= await join()
        if (isOutdated) await open(consumer)
        const hasRead = await readAll(consumer)
        if (awaySince !== undefined) onBack(clock.now() - awaySince)
        awaySince = undefined
        if (!hasRead) await wait(lookMs)
      } catch (error) {
        if (!isRunning) return
        if (awaySince === undefined) onAway(error)
        awaySince ??= clock.now()
        isOutdated = true
        // A client whose coordinator was restarted does not always find back by itself.
        await leave()
        await wait(againMs)
      }
    }
  }

  async function join(): Promise<Consumer> {
    const joining = new Consumer({
      clientId: 'sluice',
      groupId: group,
      groupInstanceId: instance,
      partitionAssigner: assignPartitions,
      autocommit: false,
      sessionTimeout: sessionMs,
      rebalanceTimeout: sessionMs,
      heartbeatInterval: heartbeatMs,
      maxWaitTime: fetchMs,
      maxBytes: answerBytes,
      retries: 0,
      // Records of open or aborted transactions are not read.
      isolationLevel: 1,
      ...securityOf(options),
    })
    joining.on('consumer:group:join', () => {
      isOutdated = true
    })
    joining.on('consumer:group:rebalance', () => {
      isOutdated = true
    })
    // The client tells of failed heartbeats so; the next request fails or finds another assignment.
    joining.on(
      'error' as never,
      (() => {
        isOutdated = true
      }) as never,
    )
    try {
      partitionCount = undefined
      joining.topics.track(topic)
      await joining.joinGroup()
      return joining
    } catch (error) {
      await joining.close(true).catch(() => {})
      throw error
    }
  }

  async function leave(): Promise<void> {
    const leaving = consumer
    consumer = undefined
    opener = undefined
    isOutdated = true
    await leaving?.close(true).catch(() => {})
  }

  /** Begins each partition of the assignment where the record says, or where the topic begins if that is later. */
  async function open(consumer: Consumer): Promise<void> {
    isOutdated = false
    await save()
    for (const taken of partitions.values()) taken.isMine = false
    const mine = consumer.assignments?.find((each) => each.topic === topic)?.partitions ?? []
    partitions = new Map()
    opener = consumer
    if (mine.length === 0) return
    const metadata = await consumer.metadata({ topics: [topic], forceUpdate: true })
    const topicId = metadata.topics.get(topic)!.id
    const bounds = (timestamp: bigint) =>
      consumer.listOffsets({ topics: [topic], partitions: { [topic]: [...mine] }, timestamp })
    const [positions, begins, ends, committed] = await Promise.all([
      record.positions(topicId),
      bounds(ListOffsetTimestamps.EARLIEST),
      bounds(ListOffsetTimestamps.LATEST),
      consumer.listCommittedOffsets({ topics: [{ topic, partitions: [...mine] }] }),
    ])
    const stored = new Map(positions.map((position) => [position.partition, position]))
    for (const partition of mine) {
      // Where this store knows nothing of the partition, the group may: another consumer had the topic before.
      const hint = Math.max(0, Number(committed.get(topic)?.[partition] ?? -1n))
      const known = stored.get(partition) ?? { next: hint, ahead: [] }
      const end = Number(ends.get(topic)?.[partition] ?? known.next)
      // A partition that ends before has lost records, as where its broker lost power: what comes now is new.
      const window = createWindow(known.next <= end ? known : { next: end, ahead: [] })
      window.readUpTo(Number(begins.get(topic)?.[partition] ?? 0n))
      partitions.set(partition, {
        topicId,
        partition,
        window,
        isMine: true,
        isChanged: false,
        againAt: 0,
        end,
      })
    }
  }

  const isBusy = (): boolean => working.size >= workingMax || workingBytes >= workingBytesMax

  /** True where more of the partition may be taken now. */
  function isReadable({ window, againAt }: Taken): boolean {
    if (window.isHeldUp() && !window.isBusy() && clock.now() >= againAt) window.resume()
    return window.room() > 0
  }

  /** Reads once from all partitions that have room; false where none has. */
  async function readAll(consumer: Consumer): Promise<boolean> {
    if (isBusy()) await new Promise<void>((resolve) => (relieve = resolve))
    const metadata = await consumer.metadata({ topics: [topic] })
    const { partitions: leaders, partitionsCount } = metadata.topics.get(topic)!
    partitionCount ??= partitionsCount
    if (partitionsCount !== partitionCount) {
      await leave()
      return true
    }
    const nodes = Map.groupBy(
      [...partitions.values()].filter(isReadable),
      ({ partition }) => leaders[partition]!.leader,
    )
    await Promise.all(
      [...nodes].map(async ([node, wanted]) => {
        const { responses } = await consumer.fetch({
          node,
          minBytes: 1,
          maxBytes: answerBytes,
          maxWaitTime: fetchMs,
          isolationLevel: 1,
          topics: [
            {
              topicId: wanted[0]!.topicId,
              partitions: wanted.map(({ partition, window }) => ({
                partition,
                currentLeaderEpoch: -1,
                lastFetchedEpoch: -1,
                fetchOffset: BigInt(window.fetchAt()),
                partitionMaxBytes: partitionBytes,
              })),
            },
          ],
        })
        for (const answer of responses.flatMap((each) => each.partitions)) {
          const taken = wanted.find(({ partition }) => partition === answer.partitionIndex)
          if (taken?.isMine === true) takeAll(taken, answer)
        }
      }),
    )
    return nodes.size > 0
  }

  /** Takes records as far as there is room; the rest is read again. */
  function takeAll(taken: Taken, answer: Answer): void {
    const { window, topicId, partition } = taken
    taken.end = Number(answer.highWatermark)
    for (const { batch, records } of committedBatches(answer)) {
      const isAppendTime = (batch.attributes & appendTimeBatch) !== 0
      for (const { offsetDelta, timestampDelta, value, headers } of records) {
        const offset = Number(batch.firstOffset) + offsetDelta
        if (offset < window.fetchAt()) continue
        if (window.room() <= 0) return
        taken.isChanged = true
        if (!window.take(offset)) continue
        const key = headers.find(([name]) => name?.toString().toLowerCase() === 'idempotency-key')?.[1]
        const timestamp = Number(isAppendTime ? batch.maxTimestamp : batch.firstTimestamp + timestampDelta)
        const message = { topic, topicId, partition, offset, timestamp, value: value ?? undefined }
        accept(taken, key == null ? message : { ...message, key: key.toString('latin1') })
      }
      window.readUpTo(Number(batch.firstOffset) + batch.lastOffsetDelta + 1)
      taken.isChanged = true
    }
  }

  function accept(taken: Taken, message: IntakeMessage): void {
    const bytes = message.value?.length ?? 0
    workingBytes += bytes
    const accepting = acceptor
      .accept(message)
      .then((outcome) => {
        taken.isChanged = true
        if (outcome === 'full' || outcome === 'unavailable') {
          taken.window.giveBack(message.offset)
          taken.againAt = clock.now() + againMs
          return
        }
        counts[outcome] += 1
        taken.window.done(message.offset)
      })
      .catch((error: unknown) =>
        onError(`take the record ${topic}/${message.partition}/${message.offset}`, error),
      )
      .finally(() => {
        workingBytes -= bytes
        working.delete(accepting)
        if (!isBusy()) relieve?.()
      })
    working.add(accepting)
  }

  /** Records the positions that have changed, and tells the group of them. */
  function save(): Promise<void> {
    saving ??= saveNow().finally(() => {
      saving = undefined
    })
    return saving
  }

  async function saveNow(): Promise<void> {
    const member = opener
    const changed = [...partitions.values()].filter(({ isChanged }) => isChanged)
    if (changed.length === 0) return
    for (const taken of changed) taken.isChanged = false
    const positions: readonly IntakePosition[] = changed.map(({ topicId, partition, window }) => ({
      topicId,
      partition,
      ...window.position(),
    }))
    try {
      await record.advance(positions)
    } catch (error) {
      for (const taken of changed) taken.isChanged = true
      onError(`record how far the topic ${topic} is taken`, error)
      return
    }
    const offsets = positions.map(({ partition, next }) => ({
      topic,
      partition,
      offset: BigInt(next),
      leaderEpoch: -1,
    }))
    await member?.commit({ offsets }).catch(() => {})
  }

  function saveAgain(): void {
    disarm = clock.at(clock.now() + saveMs, () => {
      save().finally(() => isRunning && saveAgain())
    })
  }

  return {
    start() {
      isRunning = true
      loop = run()
      saveAgain()
    },
    async stop() {
      isRunning = false
      disarm?.()
      wake?.()
      await Promise.race([loop, wait(stopMs)])
      await Promise.all(working)
      await saving
      await save()
      wake?.()
      await Promise.race([leave(), wait(stopMs)])
      wake?.()
    },
    report: () => ({
      topic,
      group,
      awaySince,
      partitions: [...partitions.values()].map(({ partition, window, againAt, end }) => {
        const { next } = window.position()
        // While the record that waits is tried again, it is not known yet that it does not wait any more.
        const isPaused = window.isHeldUp() || clock.now() < againAt + againMs
        return { partition, next, lag: Math.max(0, end - next), isPaused }
      }),
      counts: { ...counts },
    }),
  }
}
