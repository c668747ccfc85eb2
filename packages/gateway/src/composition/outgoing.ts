/** Composes the queue with RabbitMQ in front of it; without RabbitMQ the queue of this process is the whole. */
import { type Config, tenantOf } from '../config/config.ts'
import type { LeftToBroker, OutgoingQueues } from '../ports/outgoing.ts'
import type { Queue, Store } from '../ports.ts'
import { createLocalLeft } from '../scheduler/outgoing/local-left.ts'
import { createOutgoingQueue, type OutgoingQueue } from '../scheduler/outgoing/outgoing.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

/** A broker, and the record of what is left to it. */
export interface Broker {
  readonly queues: OutgoingQueues
  readonly left: LeftToBroker
  /** The address without the password. */
  readonly shown: string
}

/**
 * Looks at the broker without changing anything, and describes it; undefined for the queue of the process.
 * @throws SluiceError INVALID_CONFIG with the way out, where it does not serve
 */
export async function lookAtQueue(queue: Config['queue']): Promise<string | undefined> {
  if (queue.kind === 'embedded') return undefined
  const { lookAtRabbitmq } = await import('../adapters/queue/rabbitmq-look.ts')
  return lookAtRabbitmq(queue)
}

/** A start ends with what is wrong with the broker. One that is away is waited for: nothing is refused meanwhile. */
export async function openBroker(
  { config, clock, log }: Pick<RuntimeContext, 'config' | 'clock' | 'log'>,
  store: Store,
): Promise<Broker | undefined> {
  const { queue, tenants } = config
  if (queue.kind === 'embedded') {
    if (store.leftToBroker !== undefined) await freeAll(store.leftToBroker)
    return undefined
  }
  // The client is loaded only where it is used.
  const [{ createRabbitmqQueues }, { isUnreachable, lookAtRabbitmq }] = await Promise.all([
    import('../adapters/queue/rabbitmq.ts'),
    import('../adapters/queue/rabbitmq-look.ts'),
  ])
  try {
    await lookAtRabbitmq(queue)
  } catch (error) {
    if (!isUnreachable(error)) throw error
    log.warn({ event: 'queue.unavailable', queue: queue.shown, err: error })
  }
  return {
    queues: createRabbitmqQueues({
      address: queue,
      clock,
      lengthMaxOf: (tenant) => tenantOf(tenants, tenant).queueMax,
    }),
    left: store.leftToBroker ?? createLocalLeft(store),
    shown: queue.shown,
  }
}

/** Frees what a configuration with a broker has left behind: this one would never find it. */
async function freeAll(left: LeftToBroker): Promise<void> {
  const limit = 1_000
  for (const tenant of await left.tenants())
    while ((await left.free({ tenant, dueBy: Number.MAX_SAFE_INTEGER, limit })) === limit);
}

/** Puts the broker in front of the queue of this process. */
export function createBrokerQueue(
  embedded: Queue,
  { queues, left, shown }: Broker,
  { clock, members, log, errorsOf }: RuntimeContext,
  { ledger }: Pick<Storage, 'ledger'>,
): OutgoingQueue {
  return createOutgoingQueue({
    embedded,
    queues,
    left,
    ledger,
    members,
    clock,
    onAway: (error) => log.warn({ event: 'queue.unavailable', queue: shown, err: error }),
    onBack: (awayMs) => log.info({ event: 'queue.available', queue: shown, awayMs }),
    onDiffers: (tenant, reason) => log.warn({ event: 'queue.differs', tenant, reason }),
    onForeign: (tenant) => log.warn({ event: 'queue.foreign_message', tenant }),
    onError: errorsOf('delivery'),
  })
}
