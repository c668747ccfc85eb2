/**
 * The form of `pools`: a channel is served by a provider, and the provider through accounts. What an account may say
 * depends on the provider (providers/), so there is one schema for each, and `provider` tells which one holds.
 */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import type { AccountDocument, ProviderDefinition } from './providers/provider.ts'
import { type ProviderName, providers } from './providers/table.ts'
import { count, duration } from './schema-terms.ts'

const closed = { additionalProperties: false } as const

/** What every pool may say, whoever its provider is. */
const poolTerms = {
  timeout: Type.Optional(duration('How long one call may take. Default 15s.')),
  retry: Type.Optional(
    Type.Object(
      {
        base: Type.Optional(
          duration('The bound of the first wait; it doubles with each attempt. Default 1s.'),
        ),
        cap: Type.Optional(duration('The longest wait. Default 5min.')),
        attempts: Type.Optional(
          count(1, 100, 'Calls before a notification becomes a dead letter. Default 6.'),
        ),
      },
      closed,
    ),
  ),
}

const accountsBound = { minItems: 1, maxItems: 10_000, expects: 'a list of at least one account' }

function poolSchema([name, { account, accountsOptional }]: [string, ProviderDefinition]) {
  const accounts = Type.Array(account, accountsBound)
  return Type.Object(
    {
      provider: Type.Literal(name),
      accounts: accountsOptional === true ? Type.Optional(accounts) : accounts,
      ...poolTerms,
    },
    closed,
  )
}

const anyPool = Type.Union(Object.entries(providers).map(poolSchema), { discriminator: 'provider' })

export interface PoolDocument extends Static<TObject<typeof poolTerms>> {
  readonly provider: ProviderName
  readonly accounts?: readonly AccountDocument[]
}

/** One pool, or a list that is an order of fallback. */
export const poolsSchema = Type.Unsafe<PoolDocument | readonly PoolDocument[]>(
  Type.Union([anyPool, Type.Array(anyPool, { minItems: 1 })], {
    define: 'pools',
    expects: 'a pool, that is an object with provider and accounts',
  }),
)
