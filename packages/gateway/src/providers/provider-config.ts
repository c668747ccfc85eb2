/**
 * The interface between the configuration and a provider: which channels it can carry, which fields an account may
 * have, and how those become the options that its adapter understands. Each provider's `config.ts` implements it;
 * configs.ts lists them.
 */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox'
import { feedbackTerm } from '../config/feedback.ts'
import type { Rate } from '../config/quantity.ts'
import { count, duration, rate, text } from '../config/schema-terms.ts'
import type { Source } from '../config/source.ts'
import type { Path } from '../config/yaml-file.ts'
import type { Channel, JsonObject } from '../model.ts'

export interface AccountPlace {
  readonly channel: Channel
  readonly path: Path
  readonly source: Source
}

/** Fields that every account may have, whatever its provider. */
const accountTerms = {
  id: text('a name of letters, digits, dots and dashes', {
    pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
    description: 'What reports, logs and the timeline call it.',
  }),
  rate: Type.Optional(
    rate('Never more than this in any rolling window. Default: by channel, see the reference.'),
  ),
  concurrency: Type.Optional(count(1, 100_000, 'Calls under way at most.')),
  margin: Type.Optional(
    duration('Each window of its rate is kept this much longer. Default: that of limits.margin.'),
  ),
  feedback: feedbackTerm,
}

/** The fields for an account's address and its secret; each stands in the configuration or in a file of its own. */
export const callTerms = {
  url: Type.Optional(text('a URL', { secret: true })),
  urlFile: Type.Optional(text('the path of a file that holds the URL')),
  secret: Type.Optional(text('a secret', { secret: true })),
  secretFile: Type.Optional(text('the path of a file that holds the secret')),
}

/**
 * A sender's address, with a name or without. Before the @ only ASCII: all else needs SMTPUTF8 at every server on the
 * way.
 */
export const senderPattern = '^(?:[^\\u0000-\\u001f\\u007f@]*[ <])?[!-;=?A-~]+@[^\\u0000-\\u001f\\u007f@]+$'
export const senderExpects = 'an address such as Shop <shop@example.com>, ASCII before the @'

export const senderTerm = Type.Optional(
  text(senderExpects, { description: 'The sender.', pattern: senderPattern }),
)

/** The field of push services, which keep a message for a device that is offline. */
export const ttlTerm = Type.Optional(
  duration('How long the service keeps a message that names no end of its own. Default 28d.'),
)

/** An account as the file has it; the other fields belong to its provider. */
export type AccountDocument = Static<TObject<typeof accountTerms>> &
  Partial<Static<TObject<typeof callTerms>>>

interface Definition<Terms extends TProperties> {
  readonly channels: readonly Channel[]
  /** Calls under way at once, where the account does not name a number. */
  readonly concurrencyMax: number
  /** Protocols that the account's URL may have; empty where it has no URL. */
  readonly schemes: readonly string[]
  /** Address that an account without a URL calls. @defaultValue the account has to name one */
  readonly url?: string
  /** True when the address follows from the account's other fields. @defaultValue false */
  readonly urlOptional?: boolean
  /** Fields without which an account cannot work; a file may hold them (`secretFile`). */
  readonly requires?: readonly string[]
  /** Documented rate of the provider, for an account that names no rate. @defaultValue by channel */
  readonly rate?: Rate
  /** True when a pool may leave its accounts out: it then has one account, named after the provider. */
  readonly accountsOptional?: boolean
  /** The channel on which an account without a URL finds its address with the recipient. */
  readonly addressedBy?: Channel
  /** True when the provider requires a subject. @defaultValue false */
  readonly needsSubject?: boolean
  /** True where the secret is an auth token of Twilio, with which it signs webhooks. @defaultValue false */
  readonly authToken?: boolean
  /** Fields of an account besides `accountTerms`. */
  readonly terms: Terms
  /** Pattern that a secret from a file must match. */
  readonly secretPattern?: { readonly pattern: string; readonly expects: string }
  /** Makes the options that the adapter alone understands. Only fields of valid form are passed. */
  options(account: Static<TObject<Terms>> & AccountDocument, place: AccountPlace): JsonObject
  /** Most calls under way, where more than a number decides it. */
  concurrency?(account: Static<TObject<Terms>> & AccountDocument): number
}

export interface ProviderDefinition extends Omit<Definition<TProperties>, 'options' | 'concurrency'> {
  readonly account: TObject<TProperties>
  options(account: AccountDocument, place: AccountPlace): JsonObject
  concurrency(account: AccountDocument): number
}

/** Types the `account` of `options` by the fields of `terms`. */
export function defineProvider<Terms extends TProperties>(definition: Definition<Terms>): ProviderDefinition {
  type Account = Static<TObject<Terms>> & AccountDocument
  const { concurrencyMax } = definition
  return {
    ...definition,
    account: Type.Object<TProperties>(
      { ...accountTerms, ...definition.terms },
      { additionalProperties: false },
    ),
    options: (account, place) => definition.options(account as Account, place),
    concurrency: (account) =>
      definition.concurrency?.(account as Account) ?? account.concurrency ?? concurrencyMax,
  }
}
