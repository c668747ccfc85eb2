/**
 * The payload for every push service: the texts to show, and the data that the app needs to act on a tap. Services
 * accept about 4 KB, and the texts come first: data that does not fit is left out, and the app fetches it by the
 * notification's id.
 */
import { createHash } from 'node:crypto'
import type { JsonObject } from '../../model.ts'
import type { Message } from '../../ports.ts'

export interface Shown {
  readonly title?: string
  readonly body?: string
}

export function shownOf({ content }: Message): Shown {
  const title = content.title ?? content.subject
  return {
    ...(title === undefined ? {} : { title }),
    ...(content.text === undefined ? {} : { body: content.text }),
  }
}

export type Fitted =
  | { readonly fits: true; readonly json: string }
  | { readonly fits: false; readonly bytes: number }

/** Composes the payload as JSON within `bytesMax`, with the notification's data where there is room for it. */
export function fit(
  data: JsonObject | undefined,
  bytesMax: number,
  build: (data: JsonObject | undefined) => unknown,
): Fitted {
  const whole = JSON.stringify(build(data))
  if (Buffer.byteLength(whole) <= bytesMax) return { fits: true, json: whole }
  const bare = JSON.stringify(build(undefined))
  const bytes = Buffer.byteLength(bare)
  return bytes <= bytesMax ? { fits: true, json: bare } : { fits: false, bytes }
}

/** How long a service keeps a message for an offline device by default, s: FCM's longest, 28 days. */
const usualTtlMs = 28 * 86_400_000

/** The instant at which the message expires, epoch ms. */
export function expiryOf({ expiresAt }: Message, ttlMs: unknown, now: number): number {
  return Math.min(
    expiresAt ?? Number.POSITIVE_INFINITY,
    now + (typeof ttlMs === 'number' ? ttlMs : usualTtlMs),
  )
}

/** The URL namespace of RFC 9562, 6.6. */
const urlNamespace = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex')

/**
 * A UUID (version 5) that any client can derive from a notification's id: of `urn:sluice:<id>` in the URL namespace.
 */
export function uuidOf(id: string): string {
  const bytes = createHash('sha1').update(urlNamespace).update(`urn:sluice:${id}`).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x50
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
