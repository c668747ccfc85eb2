/**
 * What the configuration knows of a provider: which channels it can carry, what an account of it may say, and how
 * that becomes the options which its adapter alone understands. One file a provider, joined in table.ts.
 */
import { type Static, type TObject, type TProperties, Type } from '@sinclair/typebox'
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

/** What every account may say, whoever its provider is. */
export const accountTerms = {
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
}

/** Where it calls, and a secret, each in the file or in one of its own. */
export const callTerms = {
  url: Type.Optional(text('a URL', { secret: true })),
  urlFile: Type.Optional(text('the path of a file that holds the URL')),
  secret: Type.Optional(text('a secret', { secret: true })),
  secretFile: Type.Optional(text('the path of a file that holds the secret')),
}

/** With a name or without. Before the @ only ASCII: all else needs SMTPUTF8 at every server on the way. */
export const senderPattern = '^(?:[^\\u0000-\\u001f\\u007f@]*[ <])?[!-;=?A-~]+@[^\\u0000-\\u001f\\u007f@]+$'
export const senderExpects = 'an address such as Shop <shop@example.com>, ASCII before the @'

export const senderTerm = Type.Optional(
  text(senderExpects, { description: 'The sender.', pattern: senderPattern }),
)

/** Of push services, which keep a message for a device that is away. */
export const ttlTerm = Type.Optional(
  duration('How long the service keeps a message that names no end of its own. Default 28d.'),
)

/** An account as the file has it; what else it says is its provider's. */
export type AccountDocument = Static<TObject<typeof accountTerms>> &
  Partial<Static<TObject<typeof callTerms>>>

interface Definition<Terms extends TProperties> {
  readonly channels: readonly Channel[]
  /** Calls under way at once, where the account does not say. */
  readonly concurrencyMax: number
  /** Of the account's URL; empty where there is none. */
  readonly schemes: readonly string[]
  /** Where an account calls that names no URL. @defaultValue it has to name one */
  readonly url?: string
  /** Whether the address follows from what else an account says. @defaultValue false */
  readonly urlOptional?: boolean
  /** Fields of an account without which it cannot work; a file may hold them (`secretFile`). */
  readonly requires?: readonly string[]
  /** What the provider allows an account that names no rate, as it documents it. @defaultValue by channel */
  readonly rate?: Rate
  /** Whether a pool may leave its accounts out: there is then one, named after the provider. */
  readonly accountsOptional?: boolean
  /** The channel on which an account without a URL finds its address with the recipient. */
  readonly addressedBy?: Channel
  /** Whether it takes nothing without a subject. @defaultValue false */
  readonly needsSubject?: boolean
  /** What an account may say besides `accountTerms`. */
  readonly terms: Terms
  /** A secret that was read from a file is held against this. */
  readonly secretPattern?: { readonly pattern: string; readonly expects: string }
  /** What its adapter alone understands. Only fields in whose form nothing is wrong are there. */
  options(account: Static<TObject<Terms>> & AccountDocument, place: AccountPlace): JsonObject
  /** Calls under way at most, where more than a number decides it. */
  concurrency?(account: Static<TObject<Terms>> & AccountDocument): number
}

export interface ProviderDefinition extends Omit<Definition<TProperties>, 'options' | 'concurrency'> {
  readonly account: TObject<TProperties>
  options(account: AccountDocument, place: AccountPlace): JsonObject
  concurrency(account: AccountDocument): number
}

/** Sees to it that `options` is given what the terms say. */
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
