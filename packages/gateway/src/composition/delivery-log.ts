/** Composes the delivery log: the writer that brings changes of state from the outbox of the store to Cassandra. */
import type { CassandraConfig, Config } from '../config/config.ts'
import { createDeliveryLogWriter, type DeliveryLogWriter } from '../ledger/delivery-log-writer.ts'
import type { DeliveryLog } from '../ports/delivery-log.ts'
import type { Clock, Store } from '../ports.ts'
import type { RuntimeContext } from './runtime-context.ts'

/** True if the store is to keep an outbox. */
export const isLogged = ({ deliveryLog }: Pick<Config, 'deliveryLog'>): boolean =>
  deliveryLog.kind === 'cassandra'

/**
 * Opens the delivery log for reading and writing; undefined where the timeline is kept in the store alone. It connects
 * with the first question.
 */
export async function openDeliveryLog(
  { deliveryLog, retention }: Pick<Config, 'deliveryLog' | 'retention'>,
  clock: Pick<Clock, 'now'>,
  onCreated?: (statements: readonly string[]) => void,
): Promise<DeliveryLog | undefined> {
  if (deliveryLog.kind === 'store') return undefined
  // The driver is loaded only where it is used: it would cost every start some 100 ms.
  const { createCassandraLog } = await import('../adapters/delivery-log/cassandra.ts')
  return createCassandraLog({
    address: deliveryLog,
    keepMs: retention.deliveryLogMs,
    clock,
    ...(onCreated === undefined ? {} : { onCreated }),
  })
}

/**
 * Looks at the servers of the delivery log without changing anything, and describes them; undefined for the store.
 * @throws SluiceError INVALID_CONFIG with the way out, where they do not serve
 */
export async function lookAtDeliveryLog(deliveryLog: Config['deliveryLog']): Promise<string | undefined> {
  if (deliveryLog.kind === 'store') return undefined
  const { lookAtCassandra } = await import('../adapters/delivery-log/cassandra-connection.ts')
  return lookAtCassandra(deliveryLog)
}

/** Creates the writer of the delivery log; undefined where there is no log, or the store keeps no outbox. */
export async function createLogWriter(
  context: Pick<RuntimeContext, 'config' | 'clock' | 'log' | 'members' | 'errorsOf'>,
  { outbox }: Pick<Store, 'outbox'>,
): Promise<DeliveryLogWriter | undefined> {
  const { config, clock, log: lines, members } = context
  const { shown } = config.deliveryLog as Partial<CassandraConfig>
  const log = await openDeliveryLog(config, clock, (statements) =>
    lines.info({ event: 'delivery_log.created', deliveryLog: shown, statements }),
  )
  if (log === undefined || outbox === undefined) return undefined
  return createDeliveryLogWriter({
    outbox,
    log,
    members,
    clock,
    onAway: (error) => lines.warn({ event: 'delivery_log.unavailable', deliveryLog: shown, err: error }),
    onBack: (awayMs) => lines.info({ event: 'delivery_log.available', deliveryLog: shown, awayMs }),
    onLost: (entries) => lines.error({ event: 'delivery_log.lost', deliveryLog: shown, entries }),
    onError: context.errorsOf('store'),
  })
}
