/**
 * Where a running gateway is found: by what its configuration says of host and port. The rest of the file is not
 * looked at, so that a mistake in it does not keep an operator from asking the gateway that still runs.
 */
import { type LoadOptions, Source } from './source.ts'

/**
 * `http://127.0.0.1:8080`.
 *
 * @throws SluiceError `INVALID_CONFIG` where a file is named and cannot be read
 */
export function gatewayUrl(options: LoadOptions): string {
  const source = new Source(options)
  if (!source.readable) source.problems.throwIfAny('INVALID_CONFIG')
  const { http } = source.value as { readonly http?: { readonly host?: unknown; readonly port?: unknown } }
  const host = typeof http?.host === 'string' ? http.host : '127.0.0.1'
  const port = typeof http?.port === 'number' ? http.port : 8080
  return `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`
}
