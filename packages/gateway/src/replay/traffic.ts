/**
 * The file of recorded traffic: a header, then one line a request with what the policy decides by and what became of
 * it. It holds no address, no content and no data. `sluice export` writes it, `sluice replay` reads it.
 */
import { SluiceError } from '../errors.ts'
import type { Channel, JsonObject, OptOut, Outcome, Priority, QuietWindow, Status } from '../model.ts'
import { compilePolicy } from '../policy/compile.ts'
import { extended, uniform32 } from '../policy/hash.ts'
import type { Policy } from '../policy/policy.ts'

export interface TrafficHeader {
  readonly traffic: 'sluice'
  readonly version: 1
  /** The period: requests accepted from here, inclusive, to there, exclusive. ISO instants. */
  readonly from: string
  readonly to: string
  /** The instant of the export: the lines say what had become of the requests by then. */
  readonly recordedAt: string
  /** Lines marked `warmUp` are of what left from here on. */
  readonly warmUpFrom: string
  /** The acceptance of the oldest notification that was read; absent where there was none. */
  readonly oldestAt?: string
  /** False with `--plain`: names are the true ones. */
  readonly pseudonyms: boolean
  readonly tenant?: string
  readonly category?: string
  /** The share of people whose traffic this is. */
  readonly sample: number
  /** The policy that was in force at the export, and its version. */
  readonly policyVersion: string
  readonly policy: JsonObject
}

/** A request, a digest that the gateway made, or something that left before the period. Instants are ISO texts. */
export interface TrafficLine {
  readonly at: string
  /** The id of the notification; without `--plain` its time and a number. They sort by acceptance. */
  readonly id: string
  readonly tenant: string
  readonly module: string
  readonly recipient: string
  /** The channel that was asked for. */
  readonly channel: Channel
  readonly category: string
  readonly priority: Priority
  readonly template?: string
  readonly actor?: string
  /** The actors of a digest's items. */
  readonly actors?: readonly string[]
  readonly sendAt?: string
  readonly expiresAt?: string
  readonly fingerprint: string
  readonly timeZone?: string
  /** The country code of the phone number, where no time zone is known: legal hours follow from it. */
  readonly phoneCode?: string
  readonly quietHours?: Readonly<Partial<Record<Channel | 'default', QuietWindow>>>
  readonly optOuts?: readonly OptOut[]
  /** The channels on which the recipient has an address, as far as is known today. */
  readonly reachable: readonly Channel[]
  /** The outcome of the last decision. */
  readonly outcome: Outcome
  readonly reason?: string
  readonly limit?: string
  /** The instant for which the policy let it leave; absent for a suppressed one. */
  readonly dueAt?: string
  /** The instant at which it was last handed to a provider. */
  readonly leftAt?: string
  readonly state: Status
  /** The channel that carried it, where a limit moved it to a fallback channel. */
  readonly fallback?: Channel
  /** The policy version of the last decision. */
  readonly policyVersion: string
  /** The instant at which a limit of its tenant or module let it pass, where it waited for that. */
  readonly passedAt?: string
  readonly cancelledAt?: string
  /** The digest that collects it or that it is part of; for a digest itself its own name. */
  readonly digest?: string
  /** True for a digest that the gateway made. */
  readonly isDigest?: true
  /** The offset after quiet hours, in 4096ths of the policy's `spread`: it follows from the true id. Not with `--plain`. */
  readonly spread?: number
  /** True for something accepted before the period: it left within the longest window, or still waited. */
  readonly warmUp?: true
  /** The provider, an operator or a restart had a part in when it left. */
  readonly trouble?: 'provider' | 'operator'
}

/**
 * The policy that was in force at the export.
 * @throws SluiceError INVALID_POLICY where this version does not know it
 */
export const policyOf = ({ policy }: TrafficHeader): Policy => compilePolicy(policy)

/** The maximum number of lines of a file that is replayed. */
export const linesMax = 2_000_000

export interface Traffic {
  readonly header: TrafficHeader
  readonly lines: readonly TrafficLine[]
}

/**
 * Reads a file of traffic, line by line.
 * @throws SluiceError INVALID_SCENARIO with the number of the line that is no traffic
 */
export async function readTraffic(texts: AsyncIterable<string> | Iterable<string>): Promise<Traffic> {
  const refuse = (message: string): SluiceError =>
    new SluiceError('INVALID_SCENARIO', `The traffic cannot be read: ${message}`)
  let header: TrafficHeader | undefined
  const lines: TrafficLine[] = []
  const intern = createIntern()
  let number = 0
  for await (const text of texts) {
    number += 1
    if (text.trim() === '') continue
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw refuse(`line ${number} is no JSON.`)
    }
    if (header === undefined) {
      if (!isHeader(value))
        throw refuse('its first line is not the header that "sluice export" of this version writes.')
      header = value
      continue
    }
    if (!isLine(value)) throw refuse(`line ${number} is no request that "sluice export" wrote.`)
    if (lines.length === linesMax)
      throw refuse(`it has more than ${linesMax.toLocaleString('en')} lines. Export a sample: --sample 10%.`)
    lines.push(intern(value))
  }
  if (header === undefined) throw refuse('it is empty.')
  return { header, lines: withSpreads(lines) }
}

/** Steps in which the offset after quiet hours is recorded. */
export const spreadSteps = 4_096

/** The offset that follows from an id. */
export const spreadOf = (id: string): number => Math.floor((uniform32(id) / 2 ** 32) * spreadSteps)

/** A pseudonym ends here, and the end from which its offset follows begins. */
const separator = '.'

/** The pseudonym of a line, as it stands in the file. */
export const pseudonymOf = (id: string): string => id.split(separator, 1)[0]!

/** Completes a pseudonym to an id from which the offset follows that the true id had. */
const idWith = (pseudonym: string, spread: number): string =>
  extended(`${pseudonym}${separator}`, (uniform) => Math.floor((uniform / 2 ** 32) * spreadSteps) === spread)

/** Completes the ids of what waited: an offset has no part in the others, and finding one takes 50 µs. */
function withSpreads(lines: readonly TrafficLine[]): readonly TrafficLine[] {
  const digests = new Map<string, string>()
  for (const { isDigest, digest, spread } of lines)
    if (isDigest === true && digest !== undefined && spread !== undefined)
      digests.set(digest, idWith(digest, spread))
  for (const line of lines) {
    const own = line as { -readonly [K in keyof TrafficLine]: TrafficLine[K] }
    const waited = line.reason !== undefined && line.state !== 'suppressed'
    if (line.spread !== undefined && waited && line.warmUp !== true) own.id = idWith(line.id, line.spread)
    if (line.digest !== undefined) own.digest = digests.get(line.digest) ?? line.digest
  }
  return lines
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isInstant = (value: unknown): boolean => typeof value === 'string' && !Number.isNaN(Date.parse(value))

function isHeader(value: unknown): value is TrafficHeader {
  return (
    isObject(value) &&
    value.traffic === 'sluice' &&
    value.version === 1 &&
    [value.from, value.to, value.recordedAt, value.warmUpFrom].every(isInstant) &&
    isObject(value.policy) &&
    typeof value.sample === 'number'
  )
}

const isStep = (value: unknown): boolean =>
  Number.isInteger(value) && Number(value) >= 0 && Number(value) < spreadSteps

const textFields = [
  'id',
  'tenant',
  'module',
  'recipient',
  'channel',
  'category',
  'priority',
  'fingerprint',
] as const
const instantFields = ['sendAt', 'expiresAt', 'dueAt', 'leftAt', 'passedAt', 'cancelledAt'] as const

function isLine(value: unknown): value is TrafficLine {
  return (
    isObject(value) &&
    isInstant(value.at) &&
    textFields.every((field) => typeof value[field] === 'string') &&
    instantFields.every((field) => value[field] === undefined || isInstant(value[field])) &&
    Array.isArray(value.reachable) &&
    typeof value.state === 'string' &&
    (value.spread === undefined || isStep(value.spread)) &&
    typeof value.outcome === 'string'
  )
}

/** Shares equal texts and lists among the lines: most of them have one of a few. */
function createIntern(): (line: TrafficLine) => TrafficLine {
  const known = new Map<string, unknown>()
  const shared = <T>(value: T): T => {
    if (value === undefined) return value
    const key = typeof value === 'string' ? value : JSON.stringify(value)
    const found = known.get(key)
    if (found !== undefined) return found as T
    if (known.size < 100_000) known.set(key, value)
    return value
  }
  const fields = [
    'tenant',
    'module',
    'recipient',
    'category',
    'template',
    'reachable',
    'policyVersion',
  ] as const
  return (line) => {
    const own = line as unknown as Record<string, unknown>
    for (const field of fields) if (own[field] !== undefined) own[field] = shared(own[field])
    return line
  }
}
