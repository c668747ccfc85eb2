/**
 * The identity of a caller. One function gives it for every request and for every WebSocket upgrade; as long as
 * no keys are configured that is `loopbackIdentity`.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { SluiceError } from '../errors.ts'
import type { Caller } from '../stages.ts'
import { isPrintable } from './syntax.ts'
import { invalidRequest } from './validation.ts'

/** The scope of the operators' routes. */
export const operatorScope = 'sluice:admin'
/** The scope that reads the operators' routes and changes nothing. */
export const readScope = 'sluice:read'
/** The scope with which a WebSocket client may publish. */
export const publishScope = 'sluice:publish'

/** The scope that reports feedback. */
export const feedbackScope = 'sluice:feedback'

export interface Identity extends Caller {
  readonly scopes: ReadonlySet<string>
  /** The `sub` of the token; absent where it has none, and without keys. */
  readonly subject?: string
  /** The expiry of the token, epoch ms; absent without keys, where there is no token. */
  readonly expiresAtMs?: number
  /**
   * The caller named a tenant without having to: it acts as that tenant alone, even where its scopes would show
   * it more.
   */
  readonly asTenant?: boolean
}

/** True for a caller that may read what operators read: the accounts, and all tenants. */
export const mayRead = ({ scopes }: Pick<Identity, 'scopes'>): boolean =>
  scopes.has(operatorScope) || scopes.has(readScope)

/** The part that is read. A FastifyRequest and an IncomingMessage both have it. */
export type WithHeaders = Pick<IncomingMessage, 'headers'>

/** Throws UNAUTHENTICATED for an unknown caller. */
export interface Authenticate {
  (request: WithHeaders): Identity | Promise<Identity>
  /** The tenant, where it is known at once and for certain. @defaultValue never known */
  readonly tenantOf?: (request: WithHeaders) => string | undefined
}

/** The longest name of a tenant or module, characters. */
export const nameMax = 256

export function isName(value: unknown): value is string {
  return typeof value === 'string' && value.length <= nameMax && isPrintable(value)
}

const scopes: ReadonlySet<string> = new Set([operatorScope, publishScope, feedbackScope])
const byDefault: Identity = { tenant: 'default', module: 'default', scopes }

/**
 * The identity without keys, on the loopback interface: every caller has every scope, as tenant and module
 * `default` unless the headers X-Tenant-Id and X-Module-Id name others. A web page from elsewhere, open in a
 * browser of this machine, is refused: by its Origin, or by a Host name that its owner points at this machine
 * (DNS rebinding).
 */
export function loopbackIdentity({ headers }: WithHeaders): Identity {
  refuseForeignPages(headers)
  const { 'x-tenant-id': tenant, 'x-module-id': module } = headers
  if (tenant === undefined && module === undefined) return byDefault
  return {
    tenant: tenant === undefined ? byDefault.tenant : readName(tenant, 'X-Tenant-Id'),
    module: module === undefined ? byDefault.module : readName(module, 'X-Module-Id'),
    scopes,
    asTenant: tenant !== undefined,
  }
}

/** Every caller of this machine may name any tenant. */
loopbackIdentity.tenantOf = ({ headers }: WithHeaders): string => {
  const { 'x-tenant-id': tenant } = headers
  return typeof tenant === 'string' ? tenant : byDefault.tenant
}

/**
 * Host names that browsers resolve to this machine, with any port. No other name is accepted, not even one
 * without a dot.
 */
const loopbackHost = /^(?:(?:[a-z0-9-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i
/**
 * Every route checks the host without keys, public ones too: no web page may read their answers either.
 *
 * @throws SluiceError FORBIDDEN
 */
function refuseForeignHost({ host }: IncomingHttpHeaders): void {
  if (host === undefined || loopbackHost.test(host)) return
  throw new SluiceError(
    'FORBIDDEN',
    'Without keys the gateway answers to localhost, 127.0.0.1 and [::1] only; Host names another. Configure keys (auth.jwt) to serve others.',
  )
}

/**
 * Checks the host, also on public routes. One-click links and webhooks may come through a proxy that keeps the
 * name of `publicUrl`.
 */
export function refuseForeignHosts(app: FastifyInstance, publicUrl: string | undefined): void {
  const publicHost = publicUrl === undefined ? undefined : new URL(publicUrl).host
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers, url } = request
    try {
      const isPublic = url.startsWith('/u/') || url.startsWith('/api/v1/feedback/')
      if (publicHost === undefined || headers.host !== publicHost || !isPublic) refuseForeignHost(headers)
      done()
    } catch (error) {
      done(error as Error)
    }
  })
}

function refuseForeignPages(headers: IncomingHttpHeaders): void {
  const { origin } = headers
  refuseForeignHost(headers)
  if (origin !== undefined && !loopbackHost.test(origin.replace(/^https?:\/\//, ''))) {
    throw new SluiceError(
      'FORBIDDEN',
      'Without keys the gateway takes no requests of web pages from elsewhere; Origin names one.',
    )
  }
}

function readName(value: string | string[], header: string): string {
  // Header bytes come as Latin-1; only ASCII means the same everywhere.
  if (isName(value) && /^[\x20-\x7e]+$/.test(value)) return value
  throw invalidRequest([
    { path: `/${header}`, message: `must be 1 to ${nameMax} printable ASCII characters` },
  ])
}
