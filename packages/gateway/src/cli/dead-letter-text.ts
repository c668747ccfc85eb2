/**
 * Explains why a notification is a dead letter, which accounts are out, and when it is redriven. `sluice
 * explain` prints these sentences first, because the decision on a dead letter was to send. Pure.
 */
import type { EventAnswer, NotificationAnswer, PoolsAnswer } from './answers.ts'
import { instantFrom } from './text.ts'

type Account = PoolsAnswer['pools'][number]['accounts'][number]

/** The accounts that are out and named, at most; the others are counted. */
const namedMax = 5

/** Explains a dead letter. `pools` is undefined where the token may not see them. */
export function deadLetterText(
  { notificationId, channel, expiresAt, timeline }: NotificationAnswer,
  pools: PoolsAnswer | undefined,
  now: number,
): string {
  const death = timeline.findLast((event) => event.status === 'dead')
  const cause = death?.reason ?? ''
  const returns = returnsByItself.has(cause)
  const ends = expiresAt === null ? '' : ` It expires at ${instantFrom(expiresAt, now)}.`
  return [
    `It is a dead letter since ${instantFrom(death?.at, now)} (${cause}): ${causeText(cause, channel, death)}`,
    ...(returns ? [accountsText(channel, pools, now)] : []),
    `${returns ? 'It returns by itself when there is room; to send it now' : 'It stays until somebody sends it again'}: sluice dead-letters redrive ${notificationId}.${ends}`,
  ].join('\n')
}

const returnsByItself: ReadonlySet<string> = new Set(['pool_blocked', 'shed', 'circuit_open'])

function causeText(cause: string, channel: string, death: EventAnswer | undefined): string {
  const last = death?.detail === undefined ? '' : ` (${death.detail})`
  switch (cause) {
    case 'pool_blocked':
      return `no account for ${channel} could carry it${last}.`
    case 'circuit_open':
      return `every account for ${channel} had failed too often${last}.`
    case 'shed':
      return `the pool for ${channel} had too little room while accounts were out${last}.`
    case 'attempts_exhausted':
      return `attempt ${death?.attempt ?? '–'} failed and was the last${last}.`
    case 'outcome_unknown':
      return `the provider never said whether it took attempt ${death?.attempt ?? '–'}, so a repetition may be a second message${last}.`
    default:
      return `it could not be read${last}.`
  }
}

function accountsText(channel: string, pools: PoolsAnswer | undefined, now: number): string {
  if (pools === undefined) return 'An operator sees with "sluice pools" which accounts are out.'
  const accounts = pools.pools.filter((pool) => pool.channel === channel).flatMap((pool) => pool.accounts)
  if (accounts.length === 0) return `No pool serves ${channel} in this configuration.`
  const out = accounts.filter((account) => account.status !== 'healthy')
  if (out.length === 0) return `All ${accounts.length} accounts for ${channel} are healthy now.`
  const named = out.slice(0, namedMax).map((account) => outText(account, now))
  const more = out.length > namedMax ? [`${out.length - namedMax} more`] : []
  return `Out are ${out.length} of ${accounts.length} accounts: ${[...named, ...more].join('; ')}.`
}

function outText(account: Account, now: number): string {
  const until = account.outUntil ?? account.blockedUntil
  return `${account.id} (${account.status}${until === null ? '' : ` until ${instantFrom(until, now)}`})`
}
