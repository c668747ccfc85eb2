/** Who asks. One function answers that for every request; as long as no keys are configured it is this one. */
import type { FastifyRequest } from 'fastify'
import type { Caller } from '../doors.ts'
import { isPrintable } from './syntax.ts'
import { invalidRequest } from './validation.ts'

export const operatorScope = 'sluice:admin'

export interface Identity extends Caller {
  readonly scopes: ReadonlySet<string>
}

/** Throws UNAUTHENTICATED where nobody known asks. */
export type Authenticate = (request: FastifyRequest) => Identity | Promise<Identity>

const nameMax = 256
const scopes: ReadonlySet<string> = new Set([operatorScope])
const byDefault: Identity = { tenant: 'default', module: 'default', scopes }

/**
 * Without keys, on the loopback interface: everybody is an operator, as tenant and module `default` unless the
 * headers X-Tenant-Id and X-Module-Id name others.
 */
export function loopbackIdentity(request: FastifyRequest): Identity {
  const { 'x-tenant-id': tenant, 'x-module-id': module } = request.headers
  if (tenant === undefined && module === undefined) return byDefault
  return {
    tenant: tenant === undefined ? byDefault.tenant : readName(tenant, 'X-Tenant-Id'),
    module: module === undefined ? byDefault.module : readName(module, 'X-Module-Id'),
    scopes,
  }
}

function readName(value: string | string[], header: string): string {
  // Header bytes come as Latin-1; only ASCII means the same everywhere.
  if (
    typeof value === 'string' &&
    value.length <= nameMax &&
    /^[\x20-\x7e]+$/.test(value) &&
    isPrintable(value)
  ) {
    return value
  }
  throw invalidRequest([
    { path: `/${header}`, message: `must be 1 to ${nameMax} printable ASCII characters` },
  ])
}
