/**
 * Finds a running gateway by the host and port of its configuration. The rest of the file is not read, so that
 * a mistake in it does not keep an operator from querying the gateway that still runs.
 */
import { isIP } from 'node:net'
import { type LoadOptions, Source } from './source.ts'

export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase()
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/**
 * `http://127.0.0.1:8080`.
 *
 * @throws SluiceError `INVALID_CONFIG` where a file is named and cannot be read
 */
export function gatewayUrl(options: LoadOptions): string {
  const source = new Source(options)
  if (!source.readable) source.problems.throwIfAny('INVALID_CONFIG')
  const { http } = source.value as { readonly http?: { readonly host?: unknown; readonly port?: unknown } }
  const host = reachable(typeof http?.host === 'string' ? http.host : '127.0.0.1')
  const port = typeof http?.port === 'number' ? http.port : 8080
  return `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`
}

/** Replaces an address that listens everywhere by the loopback address. */
function reachable(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  return host === '::' || host === '[::]' ? '::1' : host
}
