/**
 * Formats of single values in a request. Each has a name, a check and the words of its refusal; schemas name it
 * as their `format`, so the check, the message and the published document agree.
 */
import { isTimeZone } from '@sluice/limits'

interface Form {
  /** Completes "must be …". */
  readonly expects: string
  check(text: string): boolean
}

const asciiAddress =
  /^(?=.{3,254}$)(?=[^@]{1,64}@)[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*@(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i
/** RFC 6531 allows letters of any script in place of ASCII letters. */
const wideAddress =
  /^(?=[^@]{1,64}@)[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+(?:\.[\p{L}\p{M}\p{N}!#$%&'*+/=?^_`{|}~-]+)*@(?:[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?\.)+[\p{L}\p{N}](?:[\p{L}\p{M}\p{N}-]{0,61}[\p{L}\p{M}\p{N}])?$/u
const addressBytesMax = 254

/** One bare address (RFC 5321): no display name, no comment, no quotes, no second address, no line break. */
export function isEmail(text: string): boolean {
  if (asciiAddress.test(text)) return true
  return wideAddress.test(text) && Buffer.byteLength(text) <= addressBytesMax
}

/** E.164: a plus sign and at most 15 digits. */
export function isPhone(text: string): boolean {
  return /^\+[1-9]\d{1,14}$/.test(text)
}

export function isWebUrl(text: string): boolean {
  if (!/^https?:\/\/[^\s\\]+$/i.test(text)) return false
  const url = URL.parse(text)
  return url !== null && url.hostname !== '' && url.username === '' && url.password === ''
}

/** A language tag (BCP 47), as far as `Intl` knows it. */
export const isLocale = remembering((text) => {
  try {
    return Intl.getCanonicalLocales(text).length === 1
  } catch {
    return false
  }
})

/** Cached texts at most: more than the languages and time zones in use. */
const rememberedMax = 2_000

/** Caches the texts that `Intl` has accepted. */
function remembering(check: (text: string) => boolean): (text: string) => boolean {
  const passed = new Set<string>()
  return (text) => {
    if (passed.has(text)) return true
    if (!check(text)) return false
    if (passed.size >= rememberedMax) passed.clear()
    passed.add(text)
    return true
  }
}

const plainAscii = /^[\x21-\x7e]+$/
const unprintable = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\ufeff]/u

/** A name in one line: no control characters, and no blank at either end. */
export function isPrintable(text: string): boolean {
  if (plainAscii.test(text)) return true
  return text !== '' && text.trim() === text && !unprintable.test(text)
}

const controlOrBreak = /[\p{Cc}\p{Zl}\p{Zp}]/u

/** Text for one header line: no control characters, no line breaks. */
export function isOneLine(text: string): boolean {
  return !controlOrBreak.test(text)
}

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d{1,9})?(?:Z|[+-](\d\d):(\d\d))$/i

let lastParsed = { text: '', instant: Number.NaN }

/**
 * Returns the epoch milliseconds of an RFC 3339 instant; NaN for anything else, also for 30 February. The last
 * ones are cached: each is parsed twice, by the check of its format and by its reader, and takes 0.7 µs.
 */
export function parseInstant(text: string): number {
  if (text !== lastParsed.text) lastParsed = { text, instant: readInstant(text) }
  return lastParsed.instant
}

function readInstant(text: string): number {
  const parts = rfc3339.exec(text)
  if (parts === null) return Number.NaN
  const [, year, month, day, hour, , , offsetHours = '00', offsetMinutes = '00'] = parts
  // 24:00 is midnight to ISO 8601 and to Date.parse, but invalid in RFC 3339.
  if (hour === '24' || Number(offsetHours) > 23 || Number(offsetMinutes) > 59) return Number.NaN
  const daysInMonth = new Date(Date.UTC(Number(year), Number(month), 0)).getUTCDate()
  if (Number(day) > daysInMonth) return Number.NaN
  return Date.parse(text.toUpperCase())
}

export const forms = {
  email: { expects: 'one email address such as ada@example.com', check: isEmail },
  phone: { expects: 'a phone number in E.164 form such as +393331234567', check: isPhone },
  'web-url': { expects: 'an http or https URL without credentials', check: isWebUrl },
  'time-zone': { expects: 'an IANA time zone such as Europe/Rome', check: isTimeZone },
  locale: { expects: 'a BCP 47 language tag such as it-IT', check: isLocale },
  'date-time': {
    expects: 'an RFC 3339 instant such as 2026-11-22T09:00:00Z',
    check: (text: string) => !Number.isNaN(parseInstant(text)),
  },
  'wall-time': {
    expects: 'a time of day from 00:00 to 23:59',
    check: (text: string) => /^(?:[01]\d|2[0-3]):[0-5]\d$/.test(text),
  },
  printable: { expects: 'printable text without a blank at either end', check: isPrintable },
  'one-line': { expects: 'one line without control characters', check: isOneLine },
  category: {
    expects: 'a name of letters, digits, and . _ : - such as product',
    check: (text: string) => /^[A-Za-z0-9][A-Za-z0-9._:-]*$/.test(text),
  },
  'channel-name': {
    expects:
      'a name of printable characters without a blank at either end, and none of __proto__, constructor',
    check: (text: string) => isPrintable(text) && text !== '__proto__' && text !== 'constructor',
  },
} as const satisfies Record<string, Form>

export type FormName = keyof typeof forms
