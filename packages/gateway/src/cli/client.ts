/**
 * Asks a running gateway over HTTP, on behalf of a command. Whatever keeps it from answering becomes a sentence that
 * tells the way out.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { gatewayUrl } from '../config/address.ts'
import { SluiceError } from '../errors.ts'
import type { Arguments } from './command.ts'
import { Failure, type Io } from './io.ts'
import { plain } from './text.ts'

export interface Client {
  readonly url: string
  get<Answer>(path: string, query?: Readonly<Record<string, string | undefined>>): Promise<Answer>
  /** Undefined where there is no such thing. */
  find<Answer>(path: string): Promise<Answer | undefined>
  post<Answer>(path: string, body: unknown): Promise<Answer>
}

const answerWithinMs = 30_000
const basePath = '/api/v1'

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

  async function ask(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; text: string }> {
    try {
      const response = await fetch(`${url}${basePath}${path}`, {
        method,
        redirect: 'error',
        signal: AbortSignal.timeout(answerWithinMs),
        headers: body === undefined ? headers : { ...headers, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, text: await response.text() }
    } catch (error) {
      throw new Failure(`no gateway answers at ${url} (${reasonOf(error)})\n${wayOut}`, { cause: error })
    }
  }

  async function answerOf<Answer>(response: { status: number; text: string }): Promise<Answer> {
    const value = parse(response.text)
    if (response.status >= 200 && response.status < 300 && value !== undefined) return value as Answer
    const problem = (value ?? {}) as Problem
    if (typeof problem.code !== 'string') {
      throw new Failure(`what answers at ${url} is no Sluice gateway (HTTP ${response.status})\n${wayOut}`)
    }
    const fields = (problem.errors ?? []).map(({ path, message }) => `\n  ${path}: ${message}`).join('')
    throw new Failure(
      plain(`${problem.code}: ${problem.detail ?? problem.title ?? `HTTP ${response.status}`}`) + fields,
    )
  }

  return {
    url,
    async get<Answer>(path: string, query: Readonly<Record<string, string | undefined>> = {}) {
      const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined)
      const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`
      return answerOf<Answer>(await ask('GET', `${path}${search}`))
    },
    async find<Answer>(path: string) {
      const response = await ask('GET', path)
      if (response.status === 404 && (parse(response.text) as Problem | undefined)?.code === 'NOT_FOUND')
        return undefined
      return answerOf<Answer>(response)
    },
    post: async <Answer>(path: string, body: unknown) => answerOf<Answer>(await ask('POST', path, body)),
  }
}

const wayOut = 'Start one with "sluice serve", or name another with --url or SLUICE_URL.'

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

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'no such host',
  ECONNRESET: 'the connection was reset',
  EHOSTUNREACH: 'the host cannot be reached',
}

function reasonOf(error: unknown): string {
  if ((error as Error).name === 'TimeoutError') return `nothing came within ${answerWithinMs / 1_000} s`
  const cause = (error as { cause?: { code?: string; message?: string; errors?: { code?: string }[] } }).cause
  const code = cause?.code ?? cause?.errors?.[0]?.code ?? ''
  return reasons[code] ?? (code || cause?.message || (error as Error).message)
}
