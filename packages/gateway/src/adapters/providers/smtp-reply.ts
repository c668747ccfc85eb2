/**
 * What a mail server's reply means for a notification and for the account. The codes are RFC 5321's, the enhanced
 * ones RFC 3463's; the words are what large receivers write when they throttle. Pure; the table of
 * docs/reference/providers.md is this file in words.
 */
import type { SendResult } from '../../ports.ts'

/** The command that was answered. */
export type Stage = 'connect' | 'auth' | 'mail' | 'recipient' | 'data'

const detailMax = 200

/** Too fast, and nothing else: greylisting and full mailboxes also say “try again later”. */
const throttling =
  /rate.?limit|throttl|too (?:many|fast)|slow(?:ing)? down|(?:sending|hourly|daily|message|rate) (?:quota|limit)|(?:limit|quota) (?:was |is |has been )?(?:reached|exceeded)|exceeded? .{0,40}(?:limit|rate|quota)/i
/** Policies that refuse a mail, not an address. */
const policy = /spam|blocked|black.?list|block.?list|denied|polic|relay|reputation|dmarc|dkim|\bspf\b/i
const seconds = /(?:retry|try again|wait)\D{0,20}?(\d{1,5})\s*s(?:ec(?:ond)?s?)?\b/i

/** A reply that is not 2xx. */
export function judgeReply(code: number, text: string, stage: Stage): SendResult {
  const detail = oneLine(text) || String(code)
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(text)?.[1] ?? ''
  if (code < 500) {
    // X.1 and X.2 speak of the recipient's mailbox: a full one is no reason to stop calling the server.
    const ofMailbox = /^4\.[12]\./.test(enhanced)
    if (!ofMailbox && (enhanced === '4.7.28' || throttling.test(text))) {
      const retryAfter = seconds.exec(text)?.[1]
      return { outcome: 'rate_limited', ...(retryAfter === undefined ? {} : { retryAfter }), detail }
    }
    return { outcome: 'failed', detail }
  }
  if (isOfAccount(code, enhanced, stage)) return { outcome: 'failed', detail }
  return {
    outcome: 'rejected',
    invalidAddress: stage === 'recipient' && isInvalidAddress(code, enhanced, text),
    detail,
  }
}

/** Refusals that every notification of this account would meet: its login, its sender, a server that is closed. */
function isOfAccount(code: number, enhanced: string, stage: Stage): boolean {
  if (stage === 'connect' || stage === 'auth') return true
  if (code === 530 || code === 534 || code === 535 || code === 538) return true
  // A sender that is refused is the operator's fault, unless it is this mail that is too large.
  return stage === 'mail' && code !== 552 && enhanced !== '5.3.4'
}

function isInvalidAddress(code: number, enhanced: string, text: string): boolean {
  if (enhanced !== '')
    return /^5\.1\.(?:1|2|3|6|10)$/.test(enhanced) || enhanced === '5.1.0' || enhanced === '5.2.1'
  return (code === 501 || code === 550 || code === 551 || code === 553) && !policy.test(text)
}

/** The server's name for a mail that it took: Postfix, Exim, Sendmail, Gmail, SES; else undefined. */
export function messageIdOf(reply: string): string | undefined {
  const match =
    /queued as ([\w.-]+)/i.exec(reply) ??
    /\bid[= ]<?([\w.@-]{6,})/i.exec(reply) ??
    /\bOk:? ([0-9a-f][\w-]{15,})\s*$/i.exec(reply)
  return match?.[1]
}

export function oneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, detailMax)
}
