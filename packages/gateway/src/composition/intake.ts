/**
 * Composes the intakes: topics whose records pass the same gate as requests over HTTP. Where none is configured, nothing
 * of them is loaded.
 */
import type { IntakeConfig } from '../config/intake.ts'
import { needsSubject, selfAddressed } from '../config/pools.ts'
import { capacityOf } from '../http/capacity.ts'
import { createDraftReader } from '../http/draft-checks.ts'
import type { KafkaIntake } from '../intake/kafka/consumer.ts'
import type { Templates } from '../ports.ts'
import type { IntakeReport } from '../reports.ts'
import type { PoolReport } from '../stages.ts'
import type { Admission } from './admission.ts'
import type { Dispatch } from './dispatch.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

export interface Intakes {
  /** Begins to take records; resolves at once, also while no broker answers. */
  start(): Promise<void>
  /** Resolves when the records in progress are settled and their positions on disk. */
  stop(): Promise<void>
  /** The reports of all intakes; none before the start. */
  readonly reports: () => readonly IntakeReport[]
}

export interface IntakeParts {
  readonly record: Pick<Storage, 'store' | 'recipients' | 'backlog'>
  readonly admission: Pick<Admission, 'gate' | 'queue'>
  readonly dispatch: Pick<Dispatch, 'pools'>
  readonly templates: Templates
  readonly pools: () => readonly PoolReport[]
}

/**
 * Looks at the topics without changing anything, and describes each in a sentence.
 * @throws SluiceError INVALID_CONFIG with the way out, where nothing could be taken from one of them
 */
export async function lookAtIntake(intake: readonly IntakeConfig[]): Promise<readonly string[]> {
  if (intake.length === 0) return []
  const { lookAtKafka } = await import('../intake/kafka/look.ts')
  return Promise.all(
    intake.map(({ brokers, tls, sasl, topic, group, shown }) =>
      lookAtKafka({ brokers, tls, sasl, topic, group, shown }),
    ),
  )
}

export function composeIntakes(context: RuntimeContext, parts: IntakeParts): Intakes {
  const { config } = context
  let intakes: readonly KafkaIntake[] = []
  return {
    async start() {
      if (config.intake.length > 0) intakes = await openIntakes(context, parts)
      for (const intake of intakes) intake.start()
    },
    async stop() {
      await Promise.all(intakes.map((intake) => intake.stop()))
    },
    reports: () => intakes.map((intake) => intake.report()),
  }
}

async function openIntakes(
  { config, clock, log, errorsOf }: RuntimeContext,
  {
    record: { store, recipients, backlog },
    admission: { gate, queue },
    dispatch,
    templates,
    pools,
  }: IntakeParts,
): Promise<readonly KafkaIntake[]> {
  // The client is loaded only where it is used: it would cost every start 100 ms.
  const [{ createKafkaIntake }, { createRecordAcceptor }, { createIntakePace }, { createRecordedQueue }] =
    await Promise.all([
      import('../intake/kafka/consumer.ts'),
      import('../intake/accept-record.ts'),
      import('../intake/pace.ts'),
      import('../intake/recorded-queue.ts'),
    ])
  const onError = errorsOf('intake')
  const readDraft = createDraftReader({
    recipients,
    offer: {
      templates,
      channels: new Set(dispatch.pools.map((pool) => pool.channel)),
      selfAddressed: selfAddressed(config.pools),
      needsSubject: needsSubject(config.pools),
      dataMaxBytes: config.http.dataMaxBytes,
    },
    clock,
  })
  const pace = createIntakePace({
    queue,
    // Where a ledger counts by itself, no other gateway has anything of the record.
    recorded: backlog.statuses === undefined ? undefined : createRecordedQueue({ store, clock, onError }),
    rateOf: (channel) => {
      const now = clock.now()
      const capacity = capacityOf(pools(), channel, now)
      return capacity === undefined || capacity.from > now ? undefined : capacity.perSecond
    },
    sheddingOf: (channel) => dispatch.pools.find((pool) => pool.channel === channel)?.shedding,
    clock,
  })
  const acceptor = createRecordAcceptor({ gate, store, readDraft, pace, clock, onError })
  return config.intake.map(({ brokers, tls, sasl, topic, group, shown }) =>
    createKafkaIntake({
      brokers,
      tls,
      sasl,
      topic,
      group,
      record: store.intake,
      acceptor,
      clock,
      onAway: (error) => log.warn({ event: 'intake.unavailable', intake: shown, topic, err: error }),
      onBack: (awayMs) => log.info({ event: 'intake.available', intake: shown, topic, awayMs }),
      onError,
    }),
  )
}
