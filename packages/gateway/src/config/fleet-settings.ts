/**
 * The settings that gateways over one record must have alike: the limits of tenants, and the accounts of the pools with
 * their rates. Where they differ each gateway decides by its own, so that the widest one holds for what passes through it.
 */
import type { JsonValue } from '../model.ts'
import { canonical } from '../policy/canonical.ts'
import { fnv64 } from '../policy/hash.ts'
import type { Config, TenantConfig } from './config.ts'

/** Names the settings: equal names are equal settings. Addresses and secrets have no part in it. */
export function nameFleetSettings({
  tenants,
  pools,
  limits,
}: Pick<Config, 'tenants' | 'pools' | 'limits'>): string {
  const named = {
    marginMs: limits.marginMs,
    tenants: [
      boundsOf(tenants.default),
      ...[...tenants.byId].map(([id, tenant]) => ({ id, ...boundsOf(tenant) })),
    ],
    pools: pools.map(({ channel, provider, accounts }) => ({
      channel,
      provider,
      accounts: accounts.map(({ account, rate, concurrencyMax, marginMs = null }) => ({
        id: account.id,
        rate: rate.text,
        concurrencyMax,
        marginMs,
      })),
    })),
  }
  return fnv64(canonical(named))
}

/** Rates as they are written, and numbers as they are. */
function boundsOf(tenant: TenantConfig): { readonly [key: string]: JsonValue } {
  return Object.fromEntries(
    Object.entries(tenant).map(([key, value]) => [key, typeof value === 'number' ? value : value.text]),
  )
}
