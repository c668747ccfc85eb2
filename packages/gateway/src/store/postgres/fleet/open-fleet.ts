/**
 * Opens a record on PostgreSQL for one of several processes: its store, its membership under the same id, and the record
 * from which limiter state is filled that the processes share.
 */
import type { Channel } from '../../../model.ts'
import type { Members } from '../../../ports/fleet.ts'
import type { Keeping, NewestRegistrations } from '../../../ports/limiter.ts'
import type { TenantRecords } from '../../../ports/tenants.ts'
import type { Clock, Store } from '../../../ports.ts'
import type { PostgresAddress } from '../address.ts'
import { createReadPool, type Db } from '../connection.ts'
import { newMemberId } from '../member.ts'
import { openPostgresStore, rightMs } from '../postgres.ts'
import { startFault, storeFault } from '../postgres-errors.ts'
import { createDeliveryTotals } from './delivery-totals.ts'
import { createPostgresKeeping } from './keeping.ts'
import { openPostgresMembers } from './members.ts'
import { createPostgresRegistrations } from './registrations.ts'
import { followServerClock } from './server-clock.ts'
import { createTenantRecords } from './tenant-records.ts'

export interface PostgresFleetOptions {
  readonly address: PostgresAddress
  readonly clock: Clock
  /** The version of this program, for those who look at the table of members. */
  readonly version: string
  /** Channels that this process serves: the others leave them to it where they do not serve them themselves. */
  readonly channels: readonly Channel[]
  /** The version of the policy in force. */
  readonly policy: () => string
  /** True to keep changes of state in an outbox for the delivery log. @defaultValue false */
  readonly isLogged?: boolean
  /**
   * Called once when the others have declared this process dead, because it was stopped for too long: the store takes
   * nothing more from it, and what it held is theirs. The process is to end; a new start has a new id.
   */
  readonly onDeclaredDead: () => void
  /** Called when this process has declared another one dead, with its id and its name: host and process id. */
  readonly onOtherDead?: ((member: string, name: string) => void) | undefined
  readonly onError: (what: string, error: unknown) => void
  /** Called at the opening with a sentence for the operator where the server loses commits in a crash. */
  readonly onNotDurable?: (detail: string) => void
  /** Time between two beats, ms; a process is dead after six that were not seen. @defaultValue 2000 */
  readonly beatMs?: number | undefined
}

export interface PostgresFleet {
  /** The owner closes it behind `members`; it closes all other connections of the fleet with it. */
  readonly store: Store
  readonly members: Members
  readonly registrations: NewestRegistrations
  readonly keeping: Keeping
  readonly records: TenantRecords
  /** How wrong the clock of this process may be beside that of the server, ms; undefined before the first reading. */
  readonly clockErrorMs: () => number | undefined
}

/** Connections for filling lost state, beside the four for questions: a fill must not wait behind a list. */
const recordConnections = 2

/** @throws SluiceError INVALID_CONFIG where the server cannot be used, with the way out */
export async function openPostgresFleet(options: PostgresFleetOptions): Promise<PostgresFleet> {
  const { address, clock, version, channels, onDeclaredDead, onOtherDead } = options
  const { onError, beatMs, onNotDurable } = options
  const member = newMemberId()
  const own = { alone: false, isLogged: options.isLogged ?? false, member, channels, onNotDurable }
  const store = await openPostgresStore({ address, clock, version, ...own })
  const pool = createReadPool(address, recordConnections)
  const db: Db = {
    async query(text, values, more) {
      try {
        return await pool.query(text, values, more)
      } catch (error) {
        throw storeFault(error, address)
      }
    },
  }
  const followed = followServerClock({ db, member, clock, everyMs: beatMs })
  const close = async (isSettled?: boolean): Promise<void> => {
    await followed.end()
    await pool.close()
    await store.close(isSettled)
  }
  let members: Members
  try {
    const onMembersError = (what: string, error: unknown): void =>
      onError(
        what,
        error instanceof TypeError || error instanceof RangeError ? error : storeFault(error, address),
      )
    const told = { policy: options.policy, onDeclaredDead, onOtherDead, onError: onMembersError }
    members = await openPostgresMembers({ address, member, clock, beatMs, ...told })
  } catch (error) {
    await close()
    throw startFault(error, address)
  }
  return {
    members,
    registrations: createPostgresRegistrations(db, member, rightMs),
    keeping: createPostgresKeeping(db, member),
    records: createTenantRecords(db),
    clockErrorMs: followed.errorMs,
    store: {
      ...store,
      deliveryTotals: createDeliveryTotals(db),
      close,
    },
  }
}
