/**
 * How one provider's calls look: which requests are its own, what they say, and how each fate is told. A shape knows
 * nothing of rates or chances; the server asks it to read a request, and later to word the answer.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Fate } from '../sandbox/behaviour.ts'
import type { SandboxMessage } from '../sandbox/record.ts'

export interface SandboxRequest {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly http2: boolean
  /** The address at which the client called, such as `http://127.0.0.1:9100`. */
  readonly origin: string
  /** When it arrived, epoch ms. */
  readonly now: number
}

/** A call as the provider understands it. */
export interface Asked {
  readonly asked: true
  /** Whom the credentials name. */
  readonly account: string
  readonly message: SandboxMessage
}

export interface EmulatorAnswer {
  readonly asked?: never
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Fates that are told in words; a reset or a hang is none. */
export type Told = Exclude<Fate, 'reset' | 'reset_after_accept' | 'hang' | 'hang_after_accept'>

export interface Telling {
  readonly fate: Told
  readonly asked: Asked
  /** To the letter; '' leaves it out. */
  readonly retryAfter: string
  /** Which call of the server this is: for ids that differ. */
  readonly number: number
  /** Epoch ms. */
  readonly now: number
}

export interface Emulator {
  readonly name: string
  /** Undefined: not for this provider. An answer: refused before it counts, or something beside sending, as a token. */
  read(request: SandboxRequest): Asked | EmulatorAnswer | undefined
  tell(telling: Telling): EmulatorAnswer
}

export function json(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): EmulatorAnswer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) }
}

/** The header as it is answered; nothing for ''. */
export function retryAfterHeader(retryAfter: string): Readonly<Record<string, string>> {
  return retryAfter === '' ? {} : { 'retry-after': retryAfter }
}

/** The body as a JSON object of whatever form; undefined where it is none. */
export function jsonBody<Form extends object>({
  body,
}: Pick<SandboxRequest, 'body'>): Partial<Form> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Partial<Form>)
      : undefined
  } catch {
    return undefined
  }
}

export function bearerOf({ headers }: SandboxRequest): string | undefined {
  return /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
}
