/**
 * Limits how much of one tenant is in progress at once. All work in progress shares one event loop and its
 * commits, so that every answer takes as long as all of it. Beyond its share a tenant's requests wait in order
 * of arrival, and other tenants are not behind them. A tenant that is alone has a larger share: work that
 * shares a commit is cheaper, and no other tenant has to wait for it.
 */
export interface TenantBulkheadOptions {
  /** Epoch ms. */
  readonly now: () => number
  /** Units of one tenant at most. @defaultValue 16 */
  readonly unitsMax?: number
  /** Units at most of a tenant that is alone. @defaultValue 64 */
  readonly unitsMaxAlone?: number
}

export interface TenantBulkhead {
  /**
   * Takes the units: now, or when the promise resolves. A request of a tenant that has none in progress is
   * always admitted, however large it is.
   */
  enter(tenant: string, units: number): Promise<void> | undefined
  /** Releases the units. */
  leave(tenant: string, units: number): void
}

/** The requests of one tenant: the units in progress, and those that wait for room. */
interface TenantRequests {
  units: number
  readonly waiting: { readonly units: number; readonly begin: () => void }[]
}

/** A tenant counts as active for this long after its last request. */
const rememberedMs = 60_000
const unitBytes = 4_096
/**
 * Recipients of a batch per unit: deciding and writing them costs the event loop as much as a single request
 * does.
 */
const unitRecipients = 10
/** Notifications of a list per unit: so one full page of a tenant at a time, beside others. */
const unitRows = 25

/**
 * The weight of a request in single notifications: parsing counts by bytes, work for each recipient, and for each
 * notification of a list, by their number. The content of a batch is not multiplied by its recipients anywhere before it is sent.
 */
export const unitsOf = (bodyBytes: number, recipients = 1, rows = 0): number =>
  1 +
  Math.floor(bodyBytes / unitBytes) +
  Math.floor(recipients / unitRecipients) +
  Math.floor(rows / unitRows)

export function createTenantBulkhead({
  now,
  unitsMax = 16,
  unitsMaxAlone = 64,
}: TenantBulkheadOptions): TenantBulkhead {
  /** Tenants with requests in progress. */
  const tenants = new Map<string, TenantRequests>()
  let latest: string | undefined
  /** Before this instant only the latest tenant is known to have been active. */
  let aloneFrom = Number.NEGATIVE_INFINITY

  function remember(tenant: string): void {
    if (tenant === latest) return
    if (latest !== undefined) aloneFrom = now() + rememberedMs
    latest = tenant
  }

  function hasRoom(requests: TenantRequests, units: number): boolean {
    const after = requests.units + units
    return requests.units === 0 || after <= unitsMax || (after <= unitsMaxAlone && now() >= aloneFrom)
  }

  return {
    enter(tenant, units) {
      remember(tenant)
      let requests = tenants.get(tenant)
      if (requests === undefined) {
        requests = { units: 0, waiting: [] }
        tenants.set(tenant, requests)
      }
      const { waiting } = requests
      if (waiting.length > 0 || !hasRoom(requests, units)) {
        return new Promise((begin) => waiting.push({ units, begin }))
      }
      requests.units += units
      return undefined
    },

    leave(tenant, units) {
      const requests = tenants.get(tenant)!
      requests.units -= units
      for (const { waiting } = requests; waiting.length > 0 && hasRoom(requests, waiting[0]!.units); ) {
        const next = waiting.shift()!
        requests.units += next.units
        next.begin()
      }
      if (requests.units === 0) tenants.delete(tenant)
    },
  }
}
