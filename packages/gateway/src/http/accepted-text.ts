/**
 * Writes the answers to requests that bring notifications, as JSON text. Their form is constant and they are
 * most of all answers, so they are assembled by hand: 1 µs with three rules, where objects for JSON.stringify
 * take 3 µs. The fields and their order are those of `acceptedAnswer`; a test holds the two together.
 */
import type { Decision, Notification, RuleReport } from '../model.ts'
import { isoOrNull } from './answer.ts'

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what JSON escapes
const escaped = /[\u0000-\u001f"\\\ud800-\udfff]/

/** Quotes a text. The check for escapes costs less than JSON.stringify for a short text. */
function quoted(text: string): string {
  return escaped.test(text) ? JSON.stringify(text) : `"${text}"`
}

function quotedInstant(instant: number | null): string {
  const text = isoOrNull(instant)
  return text === null ? 'null' : `"${text}"`
}

function ruleText({ limit, window, used, max, remaining, freesAt, admits }: RuleReport): string {
  return `{"limit":${quoted(limit)},"window":${quoted(window)},"used":${used},"max":${max},"remaining":${remaining},"freesAt":${quotedInstant(freesAt)},"admits":${admits}}`
}

function decisionText({ outcome, reason, limit, at, policyVersion, rules }: Decision): string {
  let text = `{"outcome":"${outcome}"`
  if (reason !== undefined) text += `,"reason":"${reason}"`
  if (limit !== undefined) text += `,"limit":${quoted(limit)}`
  if (at !== undefined && isoOrNull(at) !== null) text += `,"at":${quotedInstant(at)}`
  text += `,"policyVersion":${quoted(policyVersion)},"rules":[`
  for (let index = 0; index < rules.length; index += 1)
    text += index === 0 ? ruleText(rules[index]!) : `,${ruleText(rules[index]!)}`
  return `${text}]}`
}

/** The instant until which it waits; `null` where it does not wait. */
function waitsUntil({ status, decision, dueAt }: Notification): string {
  const waits = status === 'scheduled' || status === 'digesting'
  return waits ? quotedInstant(decision.at ?? dueAt) : 'null'
}

/** Writes the answer to a request for one notification. */
export function acceptedText(notification: Notification): string {
  const { id, status, decision } = notification
  const until = waitsUntil(notification)
  const sendAt = until === 'null' ? '' : `"sendAt":${until},`
  return `{"notificationId":"${id}","status":"${status}",${sendAt}"decision":${decisionText(decision)}}`
}

/** Writes the result of one recipient of a batch: results have one form, whether they wait or not. */
export function resultText(recipient: string, notification: Notification): string {
  const { id, status, decision } = notification
  return `{"recipient":${quoted(recipient)},"notificationId":"${id}","status":"${status}","decision":${decisionText(decision)},"sendAt":${waitsUntil(notification)}}`
}
