/**
 * The schema of `pools`: a channel is served by a provider, and the provider through accounts. The fields of an
 * account depend on the provider (providers/), so there is one schema for each, and `provider` is the
 * discriminator.
 */
import { type Static, type TObject, Type } from '@sinclair/typebox'
import { type ProviderName, providers } from '../providers/configs.ts'
import type { AccountDocument, ProviderDefinition } from '../providers/provider-config.ts'
import { count, duration, flag, share } from './schema-terms.ts'

const closed = { additionalProperties: false } as const

/** The schema of retries for one kind of failure. */
function patience(description: string) {
  return Type.Object(
    {
      base: Type.Optional(duration('The least first wait; it doubles with each attempt.')),
      cap: Type.Optional(duration('The longest wait, of which up to half as much again is chance.')),
      for: Type.Optional(duration('How long after the first call the last one may be.')),
    },
    { ...closed, description },
  )
}

/** The fields of every pool, whichever its provider. */
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
          count(
            1,
            100,
            'Calls before a notification becomes a dead letter. Default 6; greylisting and outages then only by time.',
          ),
        ),
        budget: Type.Optional(
          share('How many repetitions the pool may make, as a share of its first calls. Default 20%.'),
        ),
        greylisting: Type.Optional(
          patience(
            'Where the recipient’s server asks to come back in minutes. Default from 5min up to 4h, for 4d.',
          ),
        ),
        outage: Type.Optional(patience('Where what is called is away. Default from 1s up to 15min, for 3d.')),
      },
      closed,
    ),
  ),
  breaker: Type.Optional(
    Type.Object(
      {
        failures: Type.Optional(share('The share of failed calls that opens it. Default 50%.')),
        of: Type.Optional(count(1, 10_000, 'Calls within the window before their share counts. Default 10.')),
        within: Type.Optional(duration('The window. Default 10s.')),
        inARow: Type.Optional(
          count(
            1,
            10_000,
            'Failed calls one after the other that open it, however long they took. Default 10.',
          ),
        ),
        coolDown: Type.Optional(duration('How long it stays open the first time. Default 5s.')),
        coolDownMax: Type.Optional(duration('The longest; it doubles with each failed probe. Default 60s.')),
      },
      { ...closed, description: 'When an account that fails is left alone.' },
    ),
  ),
  shedding: Type.Optional(
    flag('Whether less is admitted while accounts are blocked or broken. Default true.'),
  ),
  shedAfter: Type.Optional(
    duration('How long what cannot leave then waits until it is a dead letter. Default 5s.'),
  ),
  critical: Type.Optional(
    share('The share of each account’s places kept for critical while there are any. Default 10%.'),
  ),
  adaptive: Type.Optional(
    Type.Union(
      [
        Type.Boolean(),
        Type.Object(
          {
            min: Type.Optional(count(1, 100_000, 'Calls at once, never fewer. Default 1.')),
            slowdown: Type.Optional(
              Type.Number({
                minimum: 1.1,
                maximum: 100,
                expects: 'a number from 1.1 to 100',
                description: 'How many times the usual latency is too slow. Default 2.',
              }),
            ),
          },
          closed,
        ),
      ],
      {
        expects: 'true, false, or an object with min, slowdown',
        description: 'Fewer calls at once while an account is slow. Default true.',
      },
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
