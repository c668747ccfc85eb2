/** Configuration of an account of the in-process sandbox: its latency, its rates, and how often it fails. */
import { Type } from '@sinclair/typebox'
import { readDuration, readRate, readShare } from '../../config/quantity.ts'
import { duration, rate, share, text } from '../../config/schema-terms.ts'
import { channels } from '../../model.ts'
import { defineProvider } from '../provider-config.ts'

/** Mishaps of the sandbox, in the words of its adapter. */
const mishaps = ['fail', 'reject', 'reset', 'reset_after_accept', 'hang', 'hang_after_accept'] as const
const oddsOfMishap = Type.Optional(share('How likely it is.'))

export const sandbox = defineProvider({
  channels,
  concurrencyMax: 1_024,
  schemes: [],
  accountsOptional: true,
  terms: {
    latency: Type.Optional(duration('How long an answer takes. Default 0ms.')),
    allows: Type.Optional(rate('What it really allows: above it a call is answered 429. Default unlimited.')),
    retryAfter: Type.Optional(
      text('what an answer may say in Retry-After', {
        maxLength: 64,
        description: 'Retry-After of a 429, to the letter. Default: the whole seconds until a place is free.',
      }),
    ),
    odds: Type.Optional(
      Type.Object(
        Object.fromEntries(mishaps.map((mishap) => [mishap, oddsOfMishap])) as Record<
          (typeof mishaps)[number],
          typeof oddsOfMishap
        >,
        {
          additionalProperties: false,
          description: 'How likely a call goes wrong, and how; together at most 100%.',
        },
      ),
    ),
  },
  options({ latency, allows, retryAfter, odds }, { path, source }) {
    const shares = Object.entries(odds ?? {}).map(([mishap, share]) => [mishap, readShare(share)] as const)
    if (shares.reduce((sum, [, share]) => sum + share, 0) > 1 + 1e-9)
      source.fault([...path, 'odds'], 'is more than 100% together')
    return {
      ...(latency === undefined ? {} : { latency: readDuration(latency) }),
      ...(allows === undefined
        ? {}
        : { rates: readRate(allows).windows.map(({ max, windowMs }) => ({ max, windowMs })) }),
      ...(retryAfter === undefined ? {} : { retryAfter }),
      ...(odds === undefined ? {} : { odds: Object.fromEntries(shares) }),
    }
  },
})
