/**
 * Provider tokens of APNs: a JWT signed with the team's key (ES256). Apple refuses a token older than one hour, and a
 * team that makes tokens more often than every twenty minutes. So each token is used for fifty minutes, and a refused
 * token gets a successor only when it is old enough. Accounts with the same key share one token. Source:
 * https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
 */
import { importPKCS8, SignJWT } from 'jose'
import type { Account, Clock } from '../../ports.ts'
import { textOption } from '../transport/http-provider.ts'

const useMs = 50 * 60_000
const youngMs = 20 * 60_000

export interface ApnsTokens {
  /** Answers the current token; rejects where the key is invalid. */
  of(account: Account): Promise<string>
  /** Reports that a token was refused. True when another token is available now. */
  refused(account: Account, token: string): boolean
}

interface Issued {
  readonly at: number
  readonly token: Promise<string>
  text?: string
}

export function createApnsTokens(clock: Pick<Clock, 'now'>): ApnsTokens {
  const issued = new Map<string, Issued>()
  const keyOf = (account: Account): string =>
    JSON.stringify([account.options.teamId, account.options.keyId, account.secret])

  function issue(account: Account, key: string): Issued {
    const at = clock.now()
    const made: Issued = { at, token: sign(account, at) }
    made.token.then(
      (text) => {
        made.text = text
      },
      () => issued.delete(key),
    )
    issued.set(key, made)
    return made
  }

  return {
    of(account) {
      const key = keyOf(account)
      const current = issued.get(key)
      const good = current !== undefined && clock.now() - current.at < useMs
      return (good ? current : issue(account, key)).token
    },
    refused(account, token) {
      const key = keyOf(account)
      const current = issued.get(key)
      if (current === undefined || current.text !== token) return true
      if (clock.now() - current.at < youngMs) return false
      issued.delete(key)
      return true
    },
  }
}

async function sign(account: Account, now: number): Promise<string> {
  const teamId = textOption(account, 'teamId')
  const keyId = textOption(account, 'keyId')
  if (teamId === undefined || keyId === undefined) throw new Error('teamId and keyId are expected')
  const key = await importPKCS8(account.secret ?? '', 'ES256').catch(() => {
    throw new Error('a private key (.p8, secret) is expected')
  })
  return new SignJWT()
    .setIssuer(teamId)
    .setIssuedAt(Math.floor(now / 1_000))
    .setProtectedHeader({ alg: 'ES256', kid: keyId })
    .sign(key)
}
