/**
 * Classifies a mail server's reply, and above all decides whose fault it is: the recipient's, the message's, or the
 * account's (its sender, its login, its relay, its host). The codes are RFC 5321's, the enhanced ones RFC 3463's; the
 * words are those that large receivers and relays write. Pure; the table of docs/reference/providers.md is this file
 * in words.
 */
import type { SendResult } from '../../ports.ts'

/** The command that the reply answers. */
export type Stage = 'connect' | 'auth' | 'mail' | 'recipient' | 'data'

/** Sender and recipient that a reply may name. */
export interface Parties {
  readonly from: string
  readonly to: string
}

const detailMax = 200

/** Words of a rate limit only: greylisting and full mailboxes also say “try again later”. */
const throttling =
  /rate.?limit|throttl|too (?:many|fast)|slow(?:ing)? down|(?:sending|hourly|daily|message|rate) (?:quota|limit)|(?:limit|quota) (?:was |is |has been )?(?:reached|exceeded)|exceeded? .{0,40}(?:limit|rate|quota)/i
/** Words of a used-up quota of an hour or a day. Some servers answer it with 5xx, Gmail as 5.4.5. */
const sendingQuota =
  /\b(?:daily|hourly|per.(?:day|hour))\b.{0,40}\b(?:quota|limits?)\b|\b(?:quota|limits?)\b.{0,40}\b(?:per.(?:day|hour))\b|\b(?:sending|submission|outgoing|outbound) (?:quota|limits?)\b|maximum credits exceeded/i
/** Words that end this connection alone: another one may go on. Exim, Yahoo, MailerSend, Mimecast. */
const connectionSpent =
  /too many (?:messages?|e?mails?|transactions|deliveries)\b.{0,30}\b(?:connection|session)|\b(?:messages?|e?mails?|transactions) per (?:smtp )?(?:connection|session)/i
/** Policies that refuse a mail, not an address. */
const policy = /spam|blocked|black.?list|block.?list|denied|polic|relay|reputation|dmarc|dkim|\bspf\b/i
/** A pause in the words of a server: “try again in 10 minutes”. */
const pause =
  /(?:retry|try again|wait|come back|listed)\D{0,20}?\b(\d{1,5})\s*(s|m|h)(?:ec(?:ond)?|in(?:ute)?|r|our)?s?\b/i
const secondsPer: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600 }

const greylisted = /gr[ea]y.?list/i
/** A mailbox that gets more than it can take at the moment, also where Gmail answers it with 5.2.1. */
const mailboxBusy = /receiving (?:e?mails?|messages?) (?:at a rate|too (?:quickly|fast))/i
/** A quota of the recipient’s, in servers that give no enhanced code. */
const mailboxQuota = /mail.?box|inbox|over.?quota|storage|\bdisk\b/i

/** Words and codes (RFC 3463, RFC 7372, Exchange Online) that blame the sender, the login, the relay or the host. */
const ofSender =
  /\bsender (?:address |domain |identity |id )?(?:was |is |has been )?(?:rejected|refused|denied|blocked|invalid|unknown|not|verif)|\bfrom address (?:is |was )?(?:rejected|not)|not owned by user|send.?as.?denied|\bto send (?:as|on behalf)\b/i
const ofLogin =
  /authenticat(?:e|ion) (?:is )?(?:required|first)|not (?:logged in|authenticated)|unauthenticated/i
const ofRelay =
  /\brelay(?:ing)? (?:access )?(?:is |was )?(?:denied|not|prohibited|refused|disallowed)|(?:\bno|not|unable|cannot|allowed|permitted|authori[sz]ed|refuse[sd]?) (?:to )?relay(?:ing)?\b/i
const ofHost =
  /\b(?:client|sending) (?:host|address|ip)\b|\byour (?:ip|host|server|network)\b|\b(?:helo|ehlo)\b/i
const ofDomain = /\b(?:spf|dkim|dmarc)\b/i
/**
 * Blocklists at the recipient stage: the server has seen nothing of the mail yet, so the listed party is the host or
 * the sender.
 */
const ofList = /block(?:ed using|.?list)|black.?list|\b(?:rbl|dnsbl|spamhaus)\b/i
const accountCodes = /^[45]\.(?:1\.[78]|2\.252|7\.(?:3|8|9|11|13|2[0-7]|5[047]|60|64|708))$/
/** Words of a recipient’s own rule about its senders: not the sender’s fault. */
const ofRecipientsRule = /RESOLVER\.RST|\b(?:for|to) (?:this|the) (?:recipient|group|list|mailbox)\b/i

/** A reply that is not 2xx. */
export function judgeReply(code: number, text: string, stage: Stage, parties?: Parties): SendResult {
  const detail = oneLine(text) || String(code)
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(text)?.[1] ?? ''
  if (isConnectionSpent(code, text)) return { outcome: 'failed', detail }
  if (isOfMailboxForNow(code, enhanced, text, stage)) return putOff(text, detail)
  const identities = unverifiedIdentities(text)
  if (identities !== undefined) return judgeUnverified(identities, detail, parties?.from)
  if (isSendingQuota(text, enhanced)) return { outcome: 'rate_limited', detail }
  if (isOfAccount(code, enhanced, text, stage, parties)) return { outcome: 'failed', detail }
  if (code < 500) return judgeTemporary(code, enhanced, text, stage, detail)
  const invalidAddress = stage === 'recipient' && isInvalidAddress(code, enhanced, text)
  return { outcome: 'rejected', invalidAddress, detail }
}

/** True when the reply ends only this connection: the mail may go at once, over another one. */
export function isConnectionSpent(code: number, text: string): boolean {
  return code >= 400 && code < 500 && connectionSpent.test(oneLine(text))
}

/** True for a quota of hours or a day, which frees by itself while no mail is sent. */
export function isSendingQuota(text: string, enhanced = ''): boolean {
  return enhanced === '5.4.5' || sendingQuota.test(oneLine(text))
}

/**
 * Reads who is not verified from a reply of Amazon SES. Where it is not the sender it is the recipient, whom an
 * account outside of SES's sandbox could reach: the recipient is not at fault.
 * https://docs.aws.amazon.com/ses/latest/dg/troubleshoot-error-messages.html
 */
export function judgeUnverified(
  identities: readonly string[],
  detail: string,
  from: string | undefined,
): SendResult {
  const sender = from?.toLowerCase() ?? ''
  const domain = sender.slice(sender.lastIndexOf('@') + 1)
  const isSender = (identity: string): boolean =>
    identity === sender || identity === domain || domain.endsWith(`.${identity}`)
  return sender === '' || identities.length === 0 || identities.some(isSender)
    ? { outcome: 'failed', detail }
    : { outcome: 'failed', detail, recipientFault: true }
}

/** Lists the identities that “Email address is not verified” names, in lower case; undefined in any other reply. */
export function unverifiedIdentities(text: string): readonly string[] | undefined {
  if (!/email address(?:es)? (?:is|are) not verified/i.test(text)) return undefined
  const named = /failed the check in region [\w-]+:\s*([^"}\r\n]+)/i.exec(text)?.[1] ?? ''
  return named
    .toLowerCase()
    .split(/[,;\s]+/)
    .map((identity) => identity.replace(/^<|[>.]$/g, ''))
    .filter((identity) => identity !== '')
}

function judgeTemporary(
  code: number,
  enhanced: string,
  text: string,
  stage: Stage,
  detail: string,
): SendResult {
  if (enhanced === '4.7.28' || throttling.test(text)) {
    const retryAfter = pauseOf(text)
    return { outcome: 'rate_limited', ...(retryAfter === undefined ? {} : { retryAfter }), detail }
  }
  // The recipient's server, or the relay for it, asks for a later retry: it says nothing about other recipients.
  if (stage === 'recipient' && code >= 450 && code <= 452) return putOff(text, detail)
  const isOutage = code === 421 || stage === 'connect' || stage === 'auth' || enhanced.startsWith('4.3.')
  return { outcome: 'failed', detail, ...(isOutage ? { retry: 'outage' } : {}) }
}

/** A retry in minutes, for this recipient alone (RFC 5321, 4.5.4.1; RFC 6647 for greylisting). */
function putOff(text: string, detail: string): SendResult {
  const retryAfter = pauseOf(text)
  return {
    outcome: 'failed',
    detail,
    recipientFault: true,
    retry: 'greylisting',
    ...(retryAfter === undefined ? {} : { retryAfter }),
  }
}

/** Reads the pause that a reply asks for, in seconds. */
function pauseOf(text: string): string | undefined {
  const [, count, unit = ''] = pause.exec(text) ?? []
  return count === undefined ? undefined : String(Number(count) * secondsPer[unit.toLowerCase()]!)
}

/** X.1 and X.2 concern the recipient's mailbox: a full one is no reason to stop calling the server. */
function isOfMailboxForNow(code: number, enhanced: string, text: string, stage: Stage): boolean {
  if (stage === 'connect' || stage === 'auth') return false
  if (mailboxBusy.test(text)) return true
  if (code >= 500) return false
  if (greylisted.test(text)) return true
  if (accountCodes.test(enhanced) || stage === 'mail') return false
  return /^4\.[12]\./.test(enhanced) ? !ofSender.test(words(text)) : isMailboxQuota(enhanced, text, stage)
}

function isMailboxQuota(enhanced: string, text: string, stage: Stage): boolean {
  return (
    stage === 'recipient' && enhanced === '' && mailboxQuota.test(words(text)) && !sendingQuota.test(text)
  )
}

/** Refusals that other mails of this account would meet as well: its login, its sender, its relay, its host. */
function isOfAccount(
  code: number,
  enhanced: string,
  text: string,
  stage: Stage,
  parties: Parties | undefined,
): boolean {
  const lower = words(text)
  if (code < 500) {
    if (stage === 'connect' || stage === 'auth' || stage === 'mail') return false
    if (throttling.test(text)) return false
    return accountCodes.test(enhanced) || ofSender.test(lower) || ofRelay.test(lower) || ofHost.test(lower)
  }
  if (stage === 'connect' || stage === 'auth') return true
  if (code === 530 || code === 534 || code === 535 || code === 538) return true
  // A refused sender is the operator's fault, unless this mail is too large.
  if (stage === 'mail') return code !== 552 && enhanced !== '5.3.4'
  if (ofRecipientsRule.test(lower)) return false
  if (accountCodes.test(enhanced)) return true
  if (ofSender.test(lower) || ofLogin.test(lower) || ofHost.test(lower) || ofDomain.test(lower)) return true
  if (stage !== 'recipient') return false
  return ofRelay.test(lower) || ofList.test(lower) || namesSender(enhanced, text, parties)
}

/**
 * Recognises `550 5.1.0 <shop@example.com>: …` to RCPT, the reply of servers that check the sender late
 * (smtpd_delay_reject).
 */
function namesSender(enhanced: string, text: string, parties: Parties | undefined): boolean {
  if (parties === undefined || (enhanced !== '' && !enhanced.startsWith('5.1.'))) return false
  const lower = text.toLowerCase()
  return lower.includes(parties.from.toLowerCase()) && !lower.includes(parties.to.toLowerCase())
}

function isInvalidAddress(code: number, enhanced: string, text: string): boolean {
  if (enhanced !== '')
    return /^5\.1\.(?:1|2|3|6|10)$/.test(enhanced) || enhanced === '5.1.0' || enhanced === '5.2.1'
  return (code === 501 || code === 550 || code === 551 || code === 553) && !policy.test(text)
}

/** Removes the addresses that a reply quotes: a name such as relay@… says nothing. */
function words(text: string): string {
  return oneLine(text.slice(0, 2_000).replace(/<[^>]*>|\S+@\S+/g, ' '), 2_000)
}

/** Finds the server's id of a mail that it took: Postfix, Exim, Sendmail, Gmail, SES; else undefined. */
export function messageIdOf(reply: string): string | undefined {
  const match =
    /queued as ([\w.-]+)/i.exec(reply) ??
    /\bid[= ]<?([\w.@-]{6,})/i.exec(reply) ??
    /\bOk:? ([0-9a-f][\w-]{15,})\s*$/i.exec(reply)
  return match?.[1]
}

export function oneLine(text: string, max = detailMax): string {
  return text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, max)
}
