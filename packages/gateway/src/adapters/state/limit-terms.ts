/** Translates requests of the port to the options of `@sluice/limits`. */
import type { FireOptions, ReserveOptions } from '@sluice/limits'
import type { LimitRequest } from '../../ports.ts'

/** The options of a reservation by the library's names: it refuses names that it does not know. */
export function termsOf({ id, notBefore, forbidden, horizonMs }: LimitRequest): ReserveOptions {
  const terms: { -readonly [Name in keyof ReserveOptions]: ReserveOptions[Name] } = { id }
  if (notBefore !== undefined) terms.notBefore = notBefore
  if (forbidden !== undefined) terms.forbidden = forbidden
  if (horizonMs !== undefined) terms.horizonMs = horizonMs
  return terms
}

/** The options of a release; undefined where it has none, as nearly always. */
export function releaseOf({ notBefore, forbidden }: LimitRequest): FireOptions | undefined {
  if (notBefore === undefined && forbidden === undefined) return undefined
  return {
    ...(notBefore === undefined ? {} : { notBefore }),
    ...(forbidden === undefined ? {} : { forbidden }),
  }
}
