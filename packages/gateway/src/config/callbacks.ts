/** Tells providers with each message how they are to call back: from the webhooks that its account has. */
import type { JsonObject } from '../model.ts'
import type { PoolConfig } from './config.ts'
import type { Source } from './source.ts'

/** Account options that follow from its webhooks: they are told to the provider with each message. */
export const callbackOptions = ['statusCallback', 'idHeader'] as const

/**
 * Adds to the accounts how their providers are to call back.
 * @returns the pools, with mistakes noted: Twilio signs the public address, so there must be one
 */
export function withCallbacks(
  pools: readonly PoolConfig[],
  publicUrl: string | undefined,
  source: Source,
): readonly PoolConfig[] {
  if (pools.every(({ accounts }) => accounts.every(({ feedback }) => feedback === undefined))) return pools
  const optionsOf = (
    { channel, provider }: PoolConfig,
    { account, feedback }: PoolConfig['accounts'][number],
  ): JsonObject => {
    if (feedback?.form === 'postmark' && provider === 'smtp')
      return { idHeader: 'X-PM-Metadata-notification_id' }
    if (feedback?.form !== 'twilio') return {}
    if (publicUrl === undefined && source.isClean(['http', 'publicUrl']))
      source.fault(
        ['http', 'publicUrl'],
        `is missing; Twilio signs it (feedback of ${channel}/${account.id})`,
      )
    if (provider !== 'twilio') return {}
    return { statusCallback: `${publicUrl}/api/v1/feedback/${channel}/${account.id}` }
  }
  return pools.map((pool) => ({
    ...pool,
    accounts: pool.accounts.map((each) => ({
      ...each,
      account: { ...each.account, options: { ...each.account.options, ...optionsOf(pool, each) } },
    })),
  }))
}
