/**
 * Access tokens of a Google service account: an assertion signed with its key (RS256) is exchanged for a token that
 * holds an hour. A token is renewed in the background while the old one still holds, one renewal at a time, so hardly
 * a call waits for one. Source:
 * https://developers.google.com/identity/protocols/oauth2/service-account#authorizingrequests
 */
import { importPKCS8, SignJWT } from 'jose'
import type { Clock } from '../../ports.ts'
import type { Egress } from '../transport/egress.ts'
import { createHttpCaller, detailOf, failureOf } from '../transport/http-call.ts'
import { jsonOf } from '../transport/http-provider.ts'

/** The fields that are read of the file that Google makes for a service account; the others do not matter. */
export interface ServiceAccount {
  readonly project_id: string
  readonly client_email: string
  readonly private_key: string
  readonly private_key_id?: string
  readonly token_uri: string
}

export interface GoogleTokensOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly scope: string
  readonly deadlineMs: number
  readonly egress?: Egress | undefined
}

export interface GoogleTokens {
  /** Answers the token, at once where there is a valid one; rejects where Google gives none. */
  of(account: ServiceAccount): string | Promise<string>
  /** Reports that a token was refused. True when asking for another one makes sense. */
  refused(account: ServiceAccount, token: string): boolean
  close(): void
}

interface Holder {
  held: { readonly token: string; readonly since: number; readonly until: number } | undefined
  pending: Promise<string> | undefined
  /** A failed renewal is not tried again before this instant. */
  nextAt: number
}

/** How long before its end a token is renewed, and how long after a failure the renewal is tried again. */
const earlyMs = 5 * 60_000
const pauseMs = 5_000
/** Age below which a refused token is not replaced: its successor would be no better. */
const youngMs = 60_000

export function createGoogleTokens({ clock, scope, deadlineMs, egress }: GoogleTokensOptions): GoogleTokens {
  const caller = createHttpCaller({ deadlineMs, egress, idleMax: 2, idleMs: 5_000 })
  const holders = new Map<string, Holder>()

  function holderOf({ client_email, private_key }: ServiceAccount): Holder {
    const key = JSON.stringify([client_email, private_key])
    let holder = holders.get(key)
    if (holder === undefined) {
      holder = { held: undefined, pending: undefined, nextAt: 0 }
      holders.set(key, holder)
    }
    return holder
  }

  function renew(account: ServiceAccount, holder: Holder): Promise<string> {
    holder.pending ??= ask(account)
      .then(
        ({ token, seconds }) => {
          const since = clock.now()
          holder.held = { token, since, until: since + seconds * 1_000 }
          return token
        },
        (error: Error) => {
          holder.nextAt = clock.now() + pauseMs
          throw error
        },
      )
      .finally(() => {
        holder.pending = undefined
      })
    return holder.pending
  }

  async function ask(account: ServiceAccount): Promise<{ token: string; seconds: number }> {
    const assertion = await assertionOf(account, scope, clock.now())
    const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }
    const answer = await caller.call({
      url: new URL(account.token_uri),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams(grant).toString(),
      signal: AbortSignal.timeout(deadlineMs),
    })
    if (!answer.answered) throw new Error(`no access token: ${failureOf(answer).detail}`)
    const { access_token: token, expires_in: seconds } = jsonOf<{ access_token: string; expires_in: number }>(
      answer,
    )
    if (answer.status !== 200 || typeof token !== 'string' || typeof seconds !== 'number')
      throw new Error(
        `no access token: ${detailOf({ ...answer, text: answer.text.replaceAll(assertion, '(secret)') })}`,
      )
    return { token, seconds }
  }

  return {
    of(account) {
      const holder = holderOf(account)
      const now = clock.now()
      const { held } = holder
      if (held === undefined || held.until <= now) return renew(account, holder)
      if (held.until - now <= earlyMs && holder.nextAt <= now) renew(account, holder).catch(() => {})
      return held.token
    },
    refused(account, token) {
      const holder = holderOf(account)
      if (holder.held?.token !== token) return true
      if (clock.now() - holder.held.since < youngMs) return false
      holder.held = undefined
      return true
    },
    close: () => caller.close(),
  }
}

async function assertionOf(account: ServiceAccount, scope: string, now: number): Promise<string> {
  const key = await importPKCS8(account.private_key, 'RS256')
  const seconds = Math.floor(now / 1_000)
  const { private_key_id: kid } = account
  return new SignJWT({ scope })
    .setIssuer(account.client_email)
    .setAudience(account.token_uri)
    .setIssuedAt(seconds)
    .setExpirationTime(seconds + 3_600)
    .setProtectedHeader({ alg: 'RS256', typ: 'JWT', ...(kid === undefined ? {} : { kid }) })
    .sign(key)
}
