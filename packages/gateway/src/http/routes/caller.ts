/** The route that tells callers who they are: tenant, module, scopes, and the gateway that they speak with. */

import type { Clock } from '../../ports.ts'
import { isoOrNull } from '../answer.ts'
import { whoamiSchema } from '../operator-schema.ts'
import { basePath, type Route } from '../route.ts'
import { aheadOf } from '../wall-time.ts'

export interface CallerRoutesOptions {
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  readonly policy: { readonly version: string }
  /** True where callers need a token. */
  readonly withKeys: boolean
  readonly version: string
}

/** Abilities of this version that clients may look for before they use them. */
const features = ['explain', 'backlog', 'overview', 'feedback', 'replays'] as const

export function callerRoutes({ clock, policy, withKeys, version }: CallerRoutesOptions): readonly Route[] {
  const startedAt = clock.now()
  return [
    {
      method: 'GET',
      path: `${basePath}/whoami`,
      operation: 'whoAmI',
      tag: 'Operation',
      summary: 'The tenant, module and scopes of the token, and its expiry',
      access: 'caller',
      answers: { 200: { description: 'The caller', schema: whoamiSchema } },
      handle({ caller }) {
        const aheadMs = aheadOf(clock)
        return {
          tenant: caller.tenant,
          module: caller.module,
          scopes: [...caller.scopes].sort(),
          expiresAt: isoOrNull(caller.expiresAtMs === undefined ? null : caller.expiresAtMs + aheadMs),
          authentication: withKeys ? 'jwt' : 'none',
          version,
          policyVersion: policy.version,
          startedAt: isoOrNull(startedAt + aheadMs),
          features,
        }
      },
    },
  ]
}
