/**
 * How much of one tenant is under way at once. Whatever is under way goes on in one event loop and shares its commits,
 * so that everybody's answer takes as long as all of it. Beyond its share a tenant's requests wait, first come first
 * served, and the others are not behind them. A tenant that is alone has a larger share: what shares a commit is
 * cheaper, and nobody has to wait for it.
 */
export interface TenantBulkheadOptions {
  /** Epoch ms. */
  readonly now: () => number
  /** Units of one tenant. @defaultValue 16 */
  readonly unitsMax?: number
  /** Units of a tenant that is alone. @defaultValue 64 */
  readonly unitsMaxAlone?: number
}

export interface TenantBulkhead {
  /**
   * Takes a place: now, or when the promise resolves. Whoever finds nothing of its tenant under way always gets one,
   * however large it is.
   */
  enter(tenant: string, units: number): Promise<void> | undefined
  /** Gives it back. */
  leave(tenant: string, units: number): void
}

interface Share {
  units: number
  readonly waiting: { readonly units: number; readonly begin: () => void }[]
}

/** Who has not asked for so long is not counted among the others. */
const rememberedMs = 60_000
const unitBytes = 4_096
/** Deciding and writing so many recipients of a batch costs the event loop as much as two single requests do. */
const unitRecipients = 10

/**
 * The weight of a request in single notifications: what is read once by its bytes, what is done for each recipient by
 * their number. The content of a batch is not multiplied by its recipients anywhere before it is sent.
 */
export const unitsOf = (bodyBytes: number, recipients = 1): number =>
  1 + Math.floor(bodyBytes / unitBytes) + Math.floor(recipients / unitRecipients)

export function createTenantBulkhead({
  now,
  unitsMax = 16,
  unitsMaxAlone = 64,
}: TenantBulkheadOptions): TenantBulkhead {
  /** Of those who have something under way. */
  const shares = new Map<string, Share>()
  let latest: string | undefined
  /** Before it, nobody is known to have asked but the latest. */
  let aloneFrom = Number.NEGATIVE_INFINITY

  function remember(tenant: string): void {
    if (tenant === latest) return
    if (latest !== undefined) aloneFrom = now() + rememberedMs
    latest = tenant
  }

  function hasRoom(share: Share, units: number): boolean {
    const after = share.units + units
    return share.units === 0 || after <= unitsMax || (after <= unitsMaxAlone && now() >= aloneFrom)
  }

  return {
    enter(tenant, units) {
      remember(tenant)
      let share = shares.get(tenant)
      if (share === undefined) {
        share = { units: 0, waiting: [] }
        shares.set(tenant, share)
      }
      const { waiting } = share
      if (waiting.length > 0 || !hasRoom(share, units)) {
        return new Promise((begin) => waiting.push({ units, begin }))
      }
      share.units += units
      return undefined
    },

    leave(tenant, units) {
      const share = shares.get(tenant)!
      share.units -= units
      for (const { waiting } = share; waiting.length > 0 && hasRoom(share, waiting[0]!.units); ) {
        const next = waiting.shift()!
        share.units += next.units
        next.begin()
      }
      if (share.units === 0) shares.delete(tenant)
    },
  }
}
