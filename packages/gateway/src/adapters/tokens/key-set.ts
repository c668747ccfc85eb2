/**
 * Caches the keys that an issuer publishes (JWK Set, RFC 7517). They are fetched again in the background when they
 * are old, and at once for an unknown key id, but not more often than the cool-down allows, whatever tokens arrive.
 * While the issuer does not answer, the last fetched keys stay in use.
 */
import { type CryptoKey, createLocalJWKSet, errors, type JSONWebKeySet, type JWSHeaderParameters } from 'jose'
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'

export interface KeySetOptions {
  /** Address of the key set: https, or http on this machine. */
  readonly url: string
  readonly clock: Clock
  /** Time limit of one fetch. @defaultValue 5_000 ms */
  readonly timeoutMs?: number
  /** The least time between two fetches. @defaultValue 30_000 ms */
  readonly coolDownMs?: number
  /** Age at which the keys are fetched again. @defaultValue 600_000 ms */
  readonly freshMs?: number
  /** Called with the reason of a failed fetch. */
  readonly onError?: (error: unknown) => void
}

export interface KeySet {
  /** Finds the keys that may have signed a token, by its header. Throws KEYS_UNAVAILABLE, or an error of jose. */
  keysFor(header: JWSHeaderParameters): Promise<readonly CryptoKey[]>
  close(): void
}

const bytesMax = 1_048_576

type Find = ReturnType<typeof createLocalJWKSet>

export function createKeySet(options: KeySetOptions): KeySet {
  const { url, clock, timeoutMs = 5_000, coolDownMs = 30_000, freshMs = 600_000 } = options
  const closing = new AbortController()
  let find: Find | undefined
  let fetchedAt = Number.NEGATIVE_INFINITY
  let askedAt = Number.NEGATIVE_INFINITY
  /** Reason of the last failed fetch; undefined when it gave keys. */
  let failure: unknown
  let inFlight: Promise<void> | undefined

  async function fetchKeys(): Promise<void> {
    askedAt = clock.now()
    try {
      const signal = AbortSignal.any([closing.signal, AbortSignal.timeout(timeoutMs)])
      find = createLocalJWKSet(await download(url, signal))
      fetchedAt = clock.now()
      failure = undefined
    } catch (error) {
      failure = error
      if (!closing.signal.aborted) options.onError?.(error)
    } finally {
      inFlight = undefined
    }
  }

  /** Joins a fetch under way; begins none within the cool-down. */
  async function refresh(): Promise<void> {
    if (inFlight === undefined && clock.now() - askedAt >= coolDownMs) inFlight = fetchKeys()
    await inFlight
  }

  function unavailable(): SluiceError {
    return new SluiceError('KEYS_UNAVAILABLE', 'The keys of the issuer cannot be fetched now.', {
      cause: failure,
      retryAfterMs: Math.max(0, askedAt + coolDownMs - clock.now()),
    })
  }

  return {
    async keysFor(header) {
      if (find === undefined) await refresh()
      else if (clock.now() - fetchedAt >= freshMs) void refresh()
      if (find === undefined) throw unavailable()
      try {
        return await candidates(find, header)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
        await refresh()
        try {
          return await candidates(find, header)
        } catch (again) {
          // The key may be one of those that could not be fetched.
          if (again instanceof errors.JWKSNoMatchingKey && failure !== undefined) throw unavailable()
          throw again
        }
      }
    },
    close: () => closing.abort(),
  }
}

/** Returns several keys where a token does not name its key. */
async function candidates(find: Find, header: JWSHeaderParameters): Promise<readonly CryptoKey[]> {
  try {
    return [await find(header)]
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error
    const keys: CryptoKey[] = []
    for await (const key of error) keys.push(key)
    return keys
  }
}

async function download(url: string, signal: AbortSignal): Promise<JSONWebKeySet> {
  const response = await fetch(url, {
    signal,
    redirect: 'error',
    headers: { accept: 'application/jwk-set+json, application/json' },
  })
  if (!response.ok || response.body === null) {
    await response.body?.cancel()
    throw new TypeError(`the issuer's keys were answered with ${response.status}`)
  }
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body) {
    bytes += chunk.byteLength
    if (bytes > bytesMax) throw new TypeError(`the issuer's keys are larger than ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as JSONWebKeySet
}
