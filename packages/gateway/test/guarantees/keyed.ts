/** A gateway that wants tokens, on a real socket, with its routes as it publishes them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { stringify } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import { temporaryFolder } from '../config/folder.ts'
import { audience, issuer, type Signer } from '../tokens.ts'

export interface Keyed {
  readonly url: string
  readonly gateway: Gateway
  readonly document: OpenApi
  readonly routes: readonly PublishedRoute[]
  ask(method: string, path: string, options?: AskOptions): Promise<Reply>
}

export interface AskOptions {
  readonly authorization?: string | undefined
  readonly token?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Readonly<Record<string, unknown>>
}

interface PublishedRoute {
  readonly method: string
  /** `/api/v1/notifications/{id}`. */
  readonly path: string
  readonly access: 'open' | 'caller' | 'reporter' | 'reader' | 'operator'
}

interface Operation {
  readonly security?: readonly { readonly bearer?: readonly string[] }[]
  readonly 'x-required-scopes'?: readonly string[]
  readonly responses: Readonly<Record<string, unknown>>
}

export interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}

export async function startKeyed(
  t: Pick<TestContext, 'after'>,
  signer: Signer,
  more: object = {},
): Promise<Keyed> {
  const cwd = temporaryFolder(t, { 'key.pem': signer.publicKey })
  const key = signer.algorithm === 'HS256' ? { secret: signer.key } : { publicKeyFile: 'key.pem' }
  const yaml = {
    http: { port: 0 },
    store: 'sqlite::memory:',
    log: { level: 'silent' },
    auth: { jwt: { ...key, issuer, audience, algorithms: [signer.algorithm] } },
    ...more,
  }
  writeFileSync(join(cwd, 'sluice.yaml'), stringify(yaml))
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as OpenApi
  return {
    url,
    gateway,
    document,
    routes: routesOf(document),
    ask: (method, path, options) => ask(`${url}${path}`, method, options),
  }
}

function accessOf({ security = [], 'x-required-scopes': scopes }: Operation): PublishedRoute['access'] {
  if (security.length === 0) return 'open'
  if (scopes?.includes('sluice:admin')) return 'operator'
  if (scopes?.includes('sluice:feedback')) return 'reporter'
  return scopes?.includes('sluice:read') ? 'reader' : 'caller'
}

function routesOf({ paths }: OpenApi): readonly PublishedRoute[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      access: accessOf(operation),
    })),
  )
}

/** Sends a request; reads only the beginning of a stream, which has no end. */
async function ask(url: string, method: string, options: AskOptions = {}): Promise<Reply> {
  const { token, body, headers } = options
  const authorization = token === undefined ? options.authorization : `Bearer ${token}`
  const response = await fetch(url, {
    method,
    headers: {
      ...(authorization === undefined ? {} : { authorization }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const type = response.headers.get('content-type') ?? ''
  if (type.startsWith('text/event-stream')) {
    await response.body?.cancel()
    return { status: response.status, headers: response.headers, text: '', body: {} }
  }
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text !== '' && type.includes('json') ? JSON.parse(text) : {},
  }
}
