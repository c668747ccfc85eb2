/**
 * Translates errors of PostgreSQL and of its connection into the gateway's errors. An error with a code of the server
 * means that the statement was rolled back, except for the few codes with which a server ends; an error without one
 * means that the connection is gone, and what became of the statement is not known.
 */
import pg from 'pg'
import { SluiceError, StoreAwayError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'

/** Raised by the functions of the schema where this connection or this member may not write any more. */
const fencedCode = 'SL001'

const onlyReadsCode = '25006'

/** A new connection leads to a standby, which writes nothing. */
export class StandbyError extends pg.DatabaseError {
  constructor() {
    super('the server is a standby, which only reads', 0, 'error')
    this.code = onlyReadsCode
  }
}

/** The code that the server gave; undefined for an error of the connection. */
const codeOf = (error: unknown): string | undefined =>
  error instanceof pg.DatabaseError ? error.code : undefined

/** True where the connection ended before the answer. */
function isLost(error: unknown): boolean {
  const code = codeOf(error)
  return code === undefined ? !(error instanceof SluiceError) : /^(08|57P)/.test(code)
}

/** True where the statement may have been carried out: a server that fails over a flush has perhaps written the commit. */
const isUncertain = (error: unknown): boolean => isLost(error) || /^(58|XX)/.test(codeOf(error) ?? '')

/** True where the store takes no more of this process. */
export const isFenced = (error: unknown): boolean =>
  codeOf(error) === fencedCode || (error instanceof SluiceError && codeOf(error.cause) === fencedCode)

/** A lock was not free within `lockMs`. */
const lockCode = '55P03'
/** Another transaction was in the way; the same statement may pass the next time. */
const inTheWay = new Set(['40001', '40P01', '23505', lockCode])
export const isInTheWay = (error: unknown): boolean => inTheWay.has(codeOf(error) ?? '')

/** The values themselves are refused: only one change of a group is to blame. */
export const isRefusedValue = (error: unknown): boolean => /^(22|23)/.test(codeOf(error) ?? '')

/** True where the server is there and took nothing: no room on its disk or in its memory, a disk that fails, no right. */
export const isRefusedByServer = ({ cause }: SluiceError): boolean =>
  /^(42|531|532|58)/.test(codeOf(cause) ?? '')

const serverFaults = new Map([
  ['53100', 'the disk of the server is full'],
  ['53200', 'the server is out of memory'],
  ['53300', 'the server has no connection left'],
  ['57014', 'the server took too long'],
  [onlyReadsCode, 'it takes no writes: default_transaction_read_only is on there'],
  [fencedCode, 'this process was declared dead, or another one has taken its place: start it again'],
])

/**
 * The error to raise for a failed statement; the error itself where the server refuses the values, which no later try
 * changes. All others are the store's, and concern every statement: a role that lost a right, a disk that fails.
 */
export function storeFault(error: unknown, { shown }: Pick<PostgresAddress, 'shown'>): Error {
  if (error instanceof SluiceError) return error
  if (isRefusedValue(error) && !isInTheWay(error)) return error as Error
  return new StoreAwayError(`The store ${shown} does not answer: ${reasonOf(error)}.`, {
    cause: error,
    ...(isUncertain(error) ? { isUncertain: true } : {}),
  })
}

/** The reason in words for a caller; the log has the server's own words. */
function reasonOf(error: unknown): string {
  if (error instanceof StandbyError) return 'the server only reads: it is a standby'
  if (isLost(error)) return 'the connection was lost'
  if (isInTheWay(error)) return 'other transactions were in the way'
  const code = codeOf(error)!
  return serverFaults.get(code) ?? `the server refused the statement with the code ${code}`
}

/**
 * The error where no connection could be made, whatever the server said to it; a process that was fenced keeps its own.
 * Nothing was asked over it, so nothing is uncertain.
 */
export function unreachable(address: Pick<PostgresAddress, 'shown'>, cause: unknown): Error {
  if (isFenced(cause)) return storeFault(cause, address)
  return new StoreAwayError(`The store ${address.shown} cannot be reached.`, { cause })
}

export const closed = ({ shown }: Pick<PostgresAddress, 'shown'>): SluiceError =>
  new StoreAwayError(`The store ${shown} is closed.`)

/** The two ways out of a missing right: the owner grants rights to run, or the user owns the schema. */
const rightsOf = ({ user, schema }: PostgresAddress): string =>
  `The owner of the schema "${schema}" gives it the rights to run: sluice migrate --grant ${user}. Or it needs to own the schema: CREATE SCHEMA "${schema}" AUTHORIZATION "${user}".`

/** The error of a user without the rights that the gateway needs. */
export const noRight = (address: PostgresAddress, said: string, cause?: unknown): SluiceError =>
  new SluiceError(
    'INVALID_CONFIG',
    `The user "${address.user}" may not do what is needed at ${address.shown}: ${said}. ${rightsOf(address)}`,
    { cause },
  )

/** The error of a server that writes nothing, although it is no standby. */
export const onlyReads = ({ shown, user, database }: PostgresAddress, cause?: unknown): SluiceError =>
  new SluiceError(
    'INVALID_CONFIG',
    `PostgreSQL at ${shown} takes no writes: default_transaction_read_only is on for its user, database or server. See why (a managed server may set it where its disk is full), and set it off: ALTER ROLE "${user}" IN DATABASE "${database}" SET default_transaction_read_only = off.`,
    { cause },
  )

export interface LackingSchema {
  /** The owner of the schema; undefined where there is no schema. */
  readonly owner: string | undefined
  /** The migrations that the schema has, and those that this version needs. */
  readonly steps: number | undefined
  readonly all: number
}

/** The error of a user who may not complete the schema. */
export function mayNotMigrate(
  address: PostgresAddress,
  { owner, steps = 0, all }: LackingSchema,
): SluiceError {
  const { shown, user, schema } = address
  if (owner === undefined)
    return new SluiceError(
      'INVALID_CONFIG',
      `There is no schema "${schema}" at ${shown} yet, and the user "${user}" may not create it. Let a user who may create it for that one: CREATE SCHEMA "${schema}" AUTHORIZATION "${user}". Or run "sluice migrate --grant ${user}" as a user who shall own it: SLUICE_STORE may hold the address with that user.`,
    )
  return new SluiceError(
    'INVALID_CONFIG',
    `The schema "${schema}" at ${shown} has ${steps} of ${all} steps, and the user "${user}" may not add the rest. Run "sluice migrate --grant ${user}" as "${owner}", who owns it: SLUICE_STORE may hold the address with that user.`,
  )
}

/** The way out where a certificate was refused, by the code of Node's TLS; undefined for another error. */
function certificateFault(code: unknown): string | undefined {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return 'It is for another host: name the host as the certificate does, or ask for its authority only (sslmode=verify-ca).'
  if (typeof code === 'string' && /CERT|SIGNATURE|ISSUER/.test(code))
    return 'Name the file of its authority in sslrootcert, and check that certificate and clock are right.'
  return undefined
}

/** The error that keeps the gateway from starting, with the way out. */
export function startFault(error: unknown, address: PostgresAddress): Error {
  if (error instanceof SluiceError) return error
  const { shown, user, database, ssl } = address
  const code = codeOf(error)
  const said = (error as Error).message || String((error as { code?: unknown }).code ?? error)
  const refuse = (detail: string): SluiceError => new SluiceError('INVALID_CONFIG', detail, { cause: error })
  if (code === '3D000')
    return refuse(
      `The database of ${shown} does not exist. Create it: createdb --owner=${user} ${database}, or CREATE DATABASE "${database}" OWNER "${user}".`,
    )
  if (code === '28P01' || code === '28000') {
    const tls =
      code === '28000' && ssl === false ? ' Where the server wants TLS, add ?sslmode=verify-full.' : ''
    return refuse(
      `PostgreSQL refuses the user "${user}" at ${shown}: ${said}. Check user and password of "store" (SLUICE_STORE, SLUICE_STORE_FILE), and pg_hba.conf of the server.${tls}`,
    )
  }
  // The driver's own error: the server asked, and there was nothing to answer.
  if (code === undefined && said.includes('client password must be'))
    return refuse(
      `PostgreSQL at ${shown} wants a password of the user "${user}", and "store" has none. Write it into the address, as postgres://user:password@host/database, which a file may hold (SLUICE_STORE_FILE); or set PGPASSWORD.`,
    )
  if (error instanceof StandbyError)
    return refuse(`PostgreSQL at ${shown} is a standby, which only reads: name the primary in "store".`)
  if (code === onlyReadsCode) return onlyReads(address, error)
  if (code === '42501') return noRight(address, said, error)
  if (code === lockCode)
    return refuse(
      `Another transaction holds what is needed in the schema "${address.schema}" at ${shown}: ${said}. End it, or wait until it has ended, and start again. Transactions by their age: SELECT pid, usename, state, xact_start, query FROM pg_stat_activity WHERE xact_start IS NOT NULL ORDER BY xact_start.`,
    )
  const certificate = certificateFault((error as { code?: unknown }).code)
  if (certificate !== undefined)
    return refuse(`The certificate of PostgreSQL at ${shown} does not hold: ${said}. ${certificate}`)
  if (code === undefined)
    return refuse(
      `PostgreSQL cannot be reached at ${shown}: ${said}. Check that it runs, host and port of "store", the network, and sslmode.`,
    )
  return isRefusedValue(error) && !isInTheWay(error)
    ? (error as Error)
    : refuse(`PostgreSQL at ${shown} does not serve: ${said}.`)
}
