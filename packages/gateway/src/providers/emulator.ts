/**
 * The interface of an emulator: it recognises the requests of one provider, reads them, and words each outcome as the
 * real service would. It knows nothing of rates or chances; the sandbox server decides those and asks the emulator to
 * read a request and later to word the answer.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Fate } from '../sandbox/behaviour.ts'
import type { SandboxMessage } from '../sandbox/record.ts'

export interface SandboxRequest {
  readonly method: string
  /** The path without its query. */
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly http2: boolean
  /** The address at which the client called, such as `http://127.0.0.1:9100`. */
  readonly origin: string
  /** Arrival of the request, epoch ms. */
  readonly now: number
}

/** A send request as the provider understands it. */
interface SendRequest {
  readonly isSend: true
  /** The account that the credentials name. */
  readonly account: string
  readonly message: SandboxMessage
}

export interface EmulatorAnswer {
  readonly isSend?: never
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Outcomes that are answered in words; a reset and a hang have no answer. */
export type Told = Exclude<Fate, 'reset' | 'reset_after_accept' | 'hang' | 'hang_after_accept'>

export interface Telling {
  readonly fate: Told
  readonly send: SendRequest
  /** The `Retry-After` to the letter; '' leaves it out. */
  readonly retryAfter: string
  /** Number of the call at this server, for distinct ids. */
  readonly number: number
  /** Time of the answer, epoch ms. */
  readonly now: number
}

export interface Emulator {
  readonly name: string
  /**
   * Reads a request. Undefined: it belongs to another provider. An answer: it is refused before it counts, or it is
   * another request than sending, such as one for a token.
   */
  read(request: SandboxRequest): SendRequest | EmulatorAnswer | undefined
  tell(telling: Telling): EmulatorAnswer
}

export function json(
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): EmulatorAnswer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) }
}

/** The `Retry-After` header; no header for ''. */
export function retryAfterHeader(retryAfter: string): Readonly<Record<string, string>> {
  return retryAfter === '' ? {} : { 'retry-after': retryAfter }
}

/** Parses the body as a JSON object of any form; undefined where it is not one. */
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
