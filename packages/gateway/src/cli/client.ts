/**
 * HTTP client with which a command queries a running gateway. Every failure becomes a sentence that says how to
 * fix it.
 */
import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { resolve } from 'node:path'
import { gatewayUrl } from '../config/address.ts'
import { SluiceError } from '../errors.ts'
import type { Arguments } from './command.ts'
import { Failure, type Io } from './io.ts'
import { plain } from './text.ts'

export interface Client {
  readonly url: string
  get<Answer>(path: string, query?: Readonly<Record<string, string | undefined>>): Promise<Answer>
  /** Undefined after a 404. */
  find<Answer>(path: string): Promise<Answer | undefined>
  post<Answer>(path: string, body: unknown): Promise<Answer>
  put<Answer>(path: string, body: unknown): Promise<Answer>
  /** Posts what is to be accepted: a 429 that was queued is an acceptance, too. */
  accept<Answer>(path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<Answer>
  delete(path: string): Promise<void>
  /** Status and body of a probe outside the base path, whatever the status is. */
  probe<Answer>(path: string): Promise<{ readonly status: number; readonly body: Answer }>
  /** The data of server-sent events, until the stream ends. */
  events(path: string, query: Readonly<Record<string, string | undefined>>): AsyncIterable<string>
}

const answerWithinMs = 30_000
const basePath = '/api/v1'

interface Response {
  readonly status: number
  readonly text: string
}

interface Answered extends Response {
  /** True for a path that belongs to a tenant: accounts, pools and holds belong to the gateway. */
  readonly isOfTenant: boolean
}

interface Problem {
  readonly code?: string
  readonly detail?: string
  readonly title?: string
  readonly errors?: readonly { readonly path: string; readonly message: string }[]
}

export function createClient(args: Arguments, io: Io): Client {
  const url = urlOf(args, io)
  const headers: Record<string, string> = { accept: 'application/json' }
  const tenant = args.text('tenant')
  if (tenant !== undefined) headers['x-tenant-id'] = headerValue('--tenant', tenant)
  const token = args.text('token') ?? tokenOf(io)
  if (token !== undefined) headers.authorization = `Bearer ${headerValue('the token', token)}`

  /** The tenant as which the gateway knows the caller: the one whose record was searched. */
  async function tenantAsked(): Promise<string | undefined> {
    const { text, status } = await request(`${url}${basePath}/whoami`, 'GET', headers, undefined)
    return status === 200 ? (parse(text) as { tenant?: string } | undefined)?.tenant : undefined
  }

  async function hintOf(code: string, isOfTenant: boolean): Promise<string | undefined> {
    if (code !== 'NOT_FOUND') return tokenHint(code, token !== undefined)
    if (!isOfTenant) return undefined
    const asked = await tenantAsked().catch(() => undefined)
    if (asked === undefined) return undefined
    return `Asked for the tenant ${plain(asked)}; what belongs to another tenant is not found.`
  }

  const unreachable = (error: unknown): Failure =>
    new Failure(`no gateway answers at ${url} (${reasonOf(error)})`, {
      cause: error,
      code: 'UNREACHABLE',
      hint: wayOut,
    })

  async function ask(
    method: string,
    path: string,
    body?: unknown,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Answered> {
    try {
      const response = await request(
        `${url}${path}`,
        method,
        { ...headers, ...more },
        body === undefined ? undefined : JSON.stringify(body),
      )
      return { ...response, isOfTenant: !/^\/api\/v1\/(?:pools|holds)\b/.test(path) }
    } catch (error) {
      throw unreachable(error)
    }
  }

  async function answerOf<Answer>(response: Answered): Promise<Answer> {
    const value = parse(response.text)
    if (response.status >= 200 && response.status < 300 && value !== undefined) return value as Answer
    const problem = (value ?? {}) as Problem
    if (typeof problem.code !== 'string') {
      throw new Failure(`what answers at ${url} is no Sluice gateway (HTTP ${response.status})`, {
        code: 'NO_GATEWAY',
        hint: wayOut,
      })
    }
    const fields = (problem.errors ?? []).map(({ path, message }) => `\n  ${path}: ${message}`).join('')
    const hint = await hintOf(problem.code, response.isOfTenant)
    throw new Failure(
      plain(`${problem.code}: ${problem.detail ?? problem.title ?? `HTTP ${response.status}`}`) + fields,
      { code: problem.code, ...(hint === undefined ? {} : { hint }) },
    )
  }

  return {
    url,
    async get<Answer>(path: string, query: Readonly<Record<string, string | undefined>> = {}) {
      return answerOf<Answer>(await ask('GET', `${basePath}${path}${searchOf(query)}`))
    },
    async find<Answer>(path: string) {
      const response = await ask('GET', `${basePath}${path}`)
      if (response.status === 404 && (parse(response.text) as Problem | undefined)?.code === 'NOT_FOUND')
        return undefined
      return answerOf<Answer>(response)
    },
    post: async <Answer>(path: string, body: unknown) =>
      answerOf<Answer>(await ask('POST', `${basePath}${path}`, body)),
    put: async <Answer>(path: string, body: unknown) =>
      answerOf<Answer>(await ask('PUT', `${basePath}${path}`, body)),
    async accept<Answer>(path: string, body: unknown, more: Readonly<Record<string, string>>) {
      const response = await ask('POST', `${basePath}${path}`, body, more)
      const queued = parse(response.text) as (Problem & { notificationId?: string }) | undefined
      if (response.status === 429 && queued?.notificationId !== undefined)
        return { ...queued, status: 'scheduled' } as Answer
      return answerOf<Answer>(response)
    },
    async delete(path) {
      const response = await ask('DELETE', `${basePath}${path}`)
      if (response.status !== 204) await answerOf(response)
    },
    async probe<Answer>(path: string) {
      const { status, text } = await ask('GET', path)
      return { status, body: (parse(text) ?? {}) as Answer }
    },
    async *events(path, query) {
      const incoming = await stream(`${url}${basePath}${path}${searchOf(query)}`, headers).catch((error) => {
        throw unreachable(error)
      })
      if (incoming.statusCode !== 200) {
        const chunks: Buffer[] = []
        for await (const chunk of incoming) chunks.push(chunk as Buffer)
        const text = Buffer.concat(chunks).toString('utf8')
        await answerOf({ status: incoming.statusCode ?? 0, text, isOfTenant: true })
        return
      }
      yield* dataOf(incoming)
    },
  }
}

function searchOf(query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return given.length === 0 ? '' : `?${new URLSearchParams(given)}`
}

const wayOut = 'Start one with "sluice serve", or name another with --url or SLUICE_URL.'

/**
 * Explains 401 and 403 for the command line: the gateway's own detail speaks of headers and scopes, but here
 * the token comes from `--token` or a variable.
 */
function tokenHint(code: string, given: boolean): string | undefined {
  if (code === 'UNAUTHENTICATED')
    return 'Give a token by SLUICE_TOKEN or --token; where there is a shared secret, "sluice token" makes one.'
  if (code === 'FORBIDDEN' && given)
    return 'Where there is a shared secret, "sluice token --scope sluice:admin" makes a token that may.'
  return undefined
}

function urlOf(args: Arguments, io: Io): string {
  const named = args.text('url') ?? (io.env.SLUICE_URL || undefined)
  if (named === undefined) {
    const path = args.text('config')
    return gatewayUrl({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  }
  if (!URL.canParse(named) || !/^https?:$/.test(new URL(named).protocol)) {
    throw new SluiceError(
      'BAD_USAGE',
      `"${plain(named)}" is no address of a gateway; expected a URL such as http://127.0.0.1:8080`,
    )
  }
  return named.replace(/\/+$/, '')
}

function tokenOf(io: Io): string | undefined {
  const file = io.env.SLUICE_TOKEN_FILE
  if (!file) return io.env.SLUICE_TOKEN || undefined
  try {
    return readFileSync(resolve(io.cwd, file), 'utf8').trim()
  } catch (error) {
    throw new Failure(`SLUICE_TOKEN_FILE names a file that cannot be read: ${file}`, { cause: error })
  }
}

function headerValue(what: string, value: string): string {
  if (/^[\x21-\x7e]+$/.test(value)) return value
  throw new SluiceError('BAD_USAGE', `${what} holds a character that no header can carry`)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Uses node:http, since `fetch` refuses ports that browsers block and a gateway may listen on one. */
function request(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>()
  const outgoing = (url.startsWith('https:') ? https : http).request(
    url,
    {
      method,
      signal: AbortSignal.timeout(answerWithinMs),
      headers:
        body === undefined
          ? headers
          : { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    },
    (incoming) => {
      const chunks: Buffer[] = []
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
      incoming.on('end', () =>
        resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }),
      )
      incoming.on('error', reject)
    },
  )
  outgoing.on('error', reject)
  outgoing.end(body)
  return promise
}

/** Opens a stream; it has no deadline, since events may be hours apart. */
function stream(url: string, headers: Readonly<Record<string, string>>): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = (url.startsWith('https:') ? https : http).get(url, { headers }, resolve)
    outgoing.on('error', reject)
  })
}

/** The `data` of each event; comments are signs of life. */
async function* dataOf(incoming: http.IncomingMessage): AsyncIterable<string> {
  let text = ''
  incoming.setEncoding('utf8')
  for await (const chunk of incoming) {
    text += chunk
    const parts = text.split('\n\n')
    text = parts.pop() ?? ''
    for (const part of parts) {
      const data = part.split('\n').find((line) => line.startsWith('data: '))
      if (data !== undefined) yield data.slice('data: '.length)
    }
  }
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'no such host',
  ECONNRESET: 'the connection was reset',
  EHOSTUNREACH: 'the host cannot be reached',
}

function reasonOf(error: unknown): string {
  const {
    name,
    code = '',
    message,
    cause,
    errors,
  } = error as NodeJS.ErrnoException & { errors?: NodeJS.ErrnoException[] }
  if (name === 'TimeoutError' || (cause as Error | undefined)?.name === 'TimeoutError')
    return `nothing came within ${answerWithinMs / 1_000} s`
  // A name with several addresses fails with one error each.
  const of = code || (errors?.[0]?.code ?? '')
  return reasons[of] ?? (of || message)
}
