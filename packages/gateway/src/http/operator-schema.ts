/** Schemas of the answers to operators; the tests check every answer against them. */
import { Type } from '@sinclair/typebox'
import { oneOf } from './schema.ts'

export const momentOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' })

export const whoamiSchema = Type.Object(
  {
    tenant: Type.String(),
    module: Type.String(),
    scopes: Type.Array(Type.String()),
    expiresAt: momentOrNull,
    authentication: oneOf(['jwt', 'none']),
    version: Type.String(),
    policyVersion: Type.String(),
    startedAt: Type.String({ format: 'date-time' }),
    features: Type.Array(Type.String()),
  },
  { $id: 'Caller' },
)
