/**
 * The form of `pools`: a channel is served by a provider, and the provider through accounts. What an account may say
 * depends on the provider, so there is one schema for each, and `provider` tells which one holds.
 */
import { type Static, type TProperties, Type } from '@sinclair/typebox'
import type { ProviderName } from './config.ts'
import { count, duration, rate, share, text } from './schema-terms.ts'

const closed = { additionalProperties: false } as const

const accountTerms = {
  id: text('a name of letters, digits, dots and dashes', {
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
    description: 'What reports, logs and the timeline call it.',
  }),
  rate: Type.Optional(
    rate('Never more than this in any rolling window. Default: by channel, see the reference.'),
  ),
  concurrency: Type.Optional(count(1, 100_000, 'Calls under way at most.')),
}

const tlsModes = ['auto', 'required', 'unverified', 'off'] as const

const smtpAccount = Type.Object(
  {
    ...accountTerms,
    url: Type.Optional(
      text('a URL such as smtp://user:password@mail.example.com:587', {
        description: 'smtp:// or smtps://.',
        secret: true,
      }),
    ),
    urlFile: Type.Optional(text('the path of a file that holds the URL')),
    from: Type.Optional(
      text('an address such as Shop <shop@example.com>', {
        description: 'The sender.',
        pattern: '^[^\\u0000-\\u001f\\u007f@]+@[^\\u0000-\\u001f\\u007f@]+$',
      }),
    ),
    connections: Type.Optional(
      count(
        1,
        1_000,
        'Connections kept open, each for one mail at a time. Default: as many as concurrency, 16.',
      ),
    ),
    tls: Type.Optional(
      Type.Union(
        tlsModes.map((mode) => Type.Literal(mode)),
        {
          expects: `one of ${tlsModes.join(', ')}`,
          description:
            'STARTTLS: auto where the server offers it, required, unverified (any certificate), off. Default auto.',
        },
      ),
    ),
    dkim: Type.Optional(
      Type.Object(
        {
          domainName: text('a domain such as example.com'),
          keySelector: text('the selector of the key in the DNS'),
          privateKey: Type.Optional(text('a private key in PEM', { secret: true, pattern: '^-----BEGIN ' })),
          privateKeyFile: Type.Optional(text('the path of a file that holds the private key in PEM')),
        },
        { ...closed, description: 'Signs every mail (RFC 6376).' },
      ),
    ),
  },
  closed,
)

/** Standard Webhooks, spec 1.0: the key in whole groups of base64. */
export const webhookSecret =
  '^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?|[A-Za-z0-9+/]{4})$'

const webhookAccount = Type.Object(
  {
    ...accountTerms,
    url: Type.Optional(
      text('an http or https URL', { description: 'Default: the recipient’s webhookUrl.', secret: true }),
    ),
    urlFile: Type.Optional(text('the path of a file that holds the URL')),
    secret: Type.Optional(
      text('whsec_ and a key in base64', {
        pattern: webhookSecret,
        description: 'Signs the calls (Standard Webhooks).',
        secret: true,
      }),
    ),
    secretFile: Type.Optional(text('the path of a file that holds the secret')),
  },
  closed,
)

/** What the sandbox can make of a call, in the words of its adapter. */
const mishaps = ['fail', 'reject', 'reset', 'reset_after_accept', 'hang', 'hang_after_accept'] as const
const oddsOfMishap = Type.Optional(share('How likely it is.'))

const sandboxAccount = Type.Object(
  {
    ...accountTerms,
    latency: Type.Optional(duration('How long an answer takes. Default 0ms.')),
    allows: Type.Optional(rate('What it really allows: above it a call is answered 429. Default unlimited.')),
    odds: Type.Optional(
      Type.Object(
        Object.fromEntries(mishaps.map((mishap) => [mishap, oddsOfMishap])) as Record<
          (typeof mishaps)[number],
          typeof oddsOfMishap
        >,
        { ...closed, description: 'How likely a call goes wrong, and how; together at most 100%.' },
      ),
    ),
  },
  closed,
)

function poolSchema<Name extends ProviderName, More extends TProperties>(provider: Name, more: More) {
  return Type.Object(
    {
      provider: Type.Literal(provider),
      ...more,
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
    },
    closed,
  )
}

const accountsBound = { minItems: 1, maxItems: 10_000, expects: 'a list of at least one account' }

export const poolSchemas = {
  smtp: poolSchema('smtp', { accounts: Type.Array(smtpAccount, accountsBound) }),
  webhook: poolSchema('webhook', { accounts: Type.Optional(Type.Array(webhookAccount, accountsBound)) }),
  sandbox: poolSchema('sandbox', { accounts: Type.Optional(Type.Array(sandboxAccount, accountsBound)) }),
} as const satisfies Record<ProviderName, unknown>

export const providerNames = Object.keys(poolSchemas) as readonly ProviderName[]

const anyPool = Type.Union([poolSchemas.smtp, poolSchemas.webhook, poolSchemas.sandbox], {
  discriminator: 'provider',
})

/** One pool, or a list that is an order of fallback. */
export const poolsSchema = Type.Union([anyPool, Type.Array(anyPool, { minItems: 1 })], {
  define: 'pools',
  expects: 'a pool, that is an object with provider and accounts',
})

export type PoolDocument = Static<typeof anyPool>
export type AccountDocument = NonNullable<PoolDocument['accounts']>[number]
export type SandboxAccountDocument = Static<typeof sandboxAccount>
export type SmtpAccountDocument = Static<typeof smtpAccount>
