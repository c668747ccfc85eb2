/** Composes durable storage: the store, the recipient cache and the ledger. */

import { createMemoryRoom } from '../adapters/state/memory-room.ts'
import { type ComplaintGuard, createComplaintGuard } from '../admission/complaint-guard.ts'
import { createFleetComplaints } from '../admission/fleet-complaints.ts'
import { createRecipientCache, type RecipientCache } from '../admission/recipient-cache.ts'
import { type StoreConfig, tenantOf } from '../config/config.ts'
import { type Backlog, createBacklog } from '../ledger/backlog.ts'
import { createContents } from '../ledger/contents.ts'
import type { DeliveryLogWriter } from '../ledger/delivery-log-writer.ts'
import { createLedger } from '../ledger/ledger.ts'
import { createOperatorHolds, type KeptHolds } from '../ledger/operator-holds.ts'
import { withPoison } from '../ledger/poison-backlog.ts'
import { createRecordedBacklog } from '../ledger/recorded-backlog.ts'
import { createFullTenants, type FullTenants } from '../observability/full-tenants.ts'
import type { Store } from '../ports.ts'
import type { Contents, Ledger } from '../stages.ts'
import { createSqliteStore, type DamagedRow, refuseFolder, type SqliteStore } from '../store/sqlite/sqlite.ts'
import { version } from '../version.ts'
import { createLogWriter, isLogged } from './delivery-log.ts'
import type { ServedLimits } from './fleet-parts.ts'
import { followHints } from './hints.ts'
import { openKeptRedis } from './kept-limits.ts'
import type { RuntimeContext } from './runtime-context.ts'
import { serveLimits, stateOfFile } from './served-limits.ts'
import { continueTimeLine } from './time-line.ts'

export interface Storage {
  readonly store: Store
  readonly ledger: Ledger
  readonly backlog: Backlog
  readonly recipients: RecipientCache
  readonly contents: Contents
  /** Accounts that an operator took out, and notifications that an operator stopped. */
  readonly holds: KeptHolds
  /** Slows and pauses categories whose recipients complain. */
  readonly complaints: ComplaintGuard
  /** Writes the delivery log; absent where the timeline is kept in the store alone. */
  readonly deliveryLog: DeliveryLogWriter | undefined
  /** The number of rows of the store that could not be read so far, each counted once. */
  readonly damagedRows: () => number
  /** Tenants that have no room left, by bound. */
  readonly tenantsFull: FullTenants['counts']
  /** Limits that count in a server; absent where they count in the memory of this process. */
  readonly limits: ServedLimits | undefined
  /** Stops the keeping of time and closes the store, unsettled as it was opened unless told otherwise. */
  close(isSettled?: boolean): Promise<void>
}

/**
 * Looks at the server of the store without changing anything, and describes it; undefined for a file.
 * @throws SluiceError INVALID_CONFIG where a start would end with it
 */
export async function lookAtStore({ path, postgres }: StoreConfig): Promise<string | undefined> {
  if (postgres === undefined) {
    refuseFolder(path)
    return undefined
  }
  const { lookAt } = await import('../store/postgres/look.ts')
  return lookAt(postgres)
}

export async function openStorage(
  context: RuntimeContext,
  timeCommit: (writes: number) => (error?: unknown) => void,
): Promise<Storage> {
  const { config, policy, parts, clock, log, members, notifier, fleet } = context
  const onError = context.errorsOf('store')
  let holds: KeptHolds | undefined
  let ledger: Ledger | undefined
  let damagedRows = 0
  const given = fleet?.store ?? parts.store
  const { store: own, file } = given === undefined ? await openStore(context, onDamagedRow) : { store: given }
  const { state } = config
  const openLimits: Parameters<typeof serveLimits>[1] | undefined =
    file === undefined || state.kind === 'memory'
      ? parts.openLimitServer
      : (registrations) => openKeptRedis(stateOfFile(state, file), context, registrations)
  const served = openLimits && (await serveLimits(own, openLimits, context))
  const store = served?.store ?? own
  if (config.store.postgres !== undefined)
    context.storeOutage.watch({ shown: config.store.postgres.shown, ping: store.ping })
  const limits: ServedLimits | undefined = fleet?.state ?? served?.limits
  /** A damaged row found before the ledger exists is reported again at the next start. */
  function onDamagedRow({ what, move }: DamagedRow): void {
    damagedRows += 1
    onError(`a row of the store is damaged and left out: ${what}`, undefined)
    if (move !== undefined)
      ledger?.commit({ moves: [move] }).catch((error) => onError('set a damaged row aside', error))
  }
  const fullTenants = createFullTenants({
    log,
    clock,
    occupancy: (tenant) => ledger!.occupancy(tenant),
    maxOf: (tenant, bound) => tenantOf(config.tenants, tenant)[`${bound}Max`],
  })
  const counted =
    fleet === undefined ? createBacklog(await store.backlog()) : createRecordedBacklog({ store, clock })
  const backlog = config.intake.length === 0 ? counted : withPoison(counted, { intake: store.intake, clock })
  const stopTimeLine = await continueTimeLine(context, store)
  // A process that has not heard of a hold reads it with the right to send, before the limits are asked.
  const begin: Store['begin'] = async (requests) => {
    const given = await store.begin(requests)
    if (given.holds !== undefined) await holds!.follow(given.holds)
    return given
  }
  const room = fleet?.state.room ?? createMemoryRoom()
  ledger = await createLedger({
    store: fleet === undefined ? store : { ...store, begin },
    room: parts.wrapRoom?.(room) ?? room,
    clock,
    boundsFor: (tenant) => tenantOf(config.tenants, tenant),
    timeCommit,
    onFull: fullTenants.note,
    backlog,
  })
  const onWritten = (): void => notifier.tell({ topic: 'holds' })
  holds = await createOperatorHolds({ store, ledger, clock, onWritten, onError })
  const { deliveryTotals: totals } = store
  const complaints = await createComplaintGuard({
    policy: policy.part,
    store,
    ledger,
    record: store.feedback,
    clock,
    fleet:
      totals && createFleetComplaints({ totals, store, record: store.feedback, members, clock, onWritten }),
    onError,
  })
  const recipients = createRecipientCache({ store })
  const deliveryLog = await createLogWriter(context, store)
  const endHints = followHints({
    notifier,
    recipients,
    holds,
    complaints,
    isShared: store.isVersioned,
    clock,
  })
  return {
    store,
    ledger,
    holds,
    complaints,
    backlog,
    recipients,
    deliveryLog,
    contents: createContents({ store }),
    limits,
    damagedRows: () => damagedRows,
    tenantsFull: fullTenants.counts,
    async close(isSettled = !store.unsettled) {
      endHints()
      fullTenants.stop()
      await deliveryLog?.stop()
      await Promise.all([holds.close(), complaints.close()])
      await stopTimeLine()
      await served?.limits.close()
      context.storeOutage.stop()
      await store.close(isSettled)
    },
  }
}

/** Opens the store of a gateway that has its record for itself: a file, or PostgreSQL. */
async function openStore(
  { config, parts, clock, log }: RuntimeContext,
  onDamagedRow: (row: DamagedRow) => void,
): Promise<{ readonly store: Store; readonly file?: SqliteStore }> {
  const { path, postgres: address } = config.store
  if (address === undefined) {
    const { acceptLoss = false } = parts
    const file = createSqliteStore({ path, clock, acceptLoss, onDamagedRow, isLogged: isLogged(config) })
    return { store: file, file }
  }
  // The driver is loaded only where it is used: it would cost every start 30 ms.
  const { openPostgresStore } = await import('../store/postgres/postgres.ts')
  const store = await openPostgresStore({
    address,
    clock,
    version,
    // The state of the limits is in memory: two processes would each count their own half.
    alone: true,
    isLogged: isLogged(config),
    onNotDurable: (detail) => log.warn({ event: 'store.not_durable', detail }),
    onFenced() {
      log.error({ event: 'gateway.declared_dead' })
      parts.onDeclaredDead?.()
    },
  })
  return { store }
}
