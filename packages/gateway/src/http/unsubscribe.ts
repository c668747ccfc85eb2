/**
 * Links with which one click ends mail of a category (RFC 8058). The token in a link names the recipient and
 * category, and the mail that it is in, and is signed, so nothing is stored for it and it cannot be forged for another
 * recipient.
 */
import { timingSafeEqual } from 'node:crypto'
import { keyedHash } from '../keyed-hash.ts'
import type { Channel, Notification } from '../model.ts'
import { channels } from '../model.ts'

/** The mail that one click ends. */
export interface Unsubscription {
  readonly tenant: string
  readonly recipient: string
  readonly category: string
  readonly channel: Channel
  /** The mail that has the link; absent in the links of earlier versions. */
  readonly notificationId?: string
}

export interface UnsubscribeLinks {
  /** Absent without a public address: no link would work. */
  readonly urlFor?: (
    notification: Pick<Notification, 'tenant' | 'to' | 'category' | 'channel'> &
      Partial<Pick<Notification, 'id'>>,
  ) => string
  /** Decodes a token; undefined for a forged one. */
  read(token: string): Unsubscription | undefined
}

export interface UnsubscribeOptions {
  /** The public https address of this gateway, without a slash at its end. */
  readonly publicUrl: string | undefined
  /** The key that signs the links. */
  readonly key: string | Buffer
}

export function createUnsubscribeLinks({ publicUrl, key }: UnsubscribeOptions): UnsubscribeLinks {
  if (publicUrl === undefined) return { read: () => undefined }

  // The prefix before the payload keeps signatures of the same key for other purposes from being valid here.
  const code = keyedHash(key)
  const sign = (payload: string): Buffer => code(`sluice unsubscribe\n${payload}`)

  return {
    urlFor({ tenant, to, category, channel, id }) {
      const named = [tenant, to.id, category, channel, ...(id === undefined ? [] : [id])]
      const payload = Buffer.from(JSON.stringify(named)).toString('base64url')
      return `${publicUrl}/u/${payload}.${sign(payload).toString('base64url')}`
    },
    read(token) {
      const [payload, signature, ...more] = token.split('.')
      if (payload === undefined || signature === undefined || more.length > 0) return undefined
      const given = Buffer.from(signature, 'base64url')
      const right = sign(payload)
      if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined
      const [tenant, recipient, category, channel, notificationId] = JSON.parse(
        Buffer.from(payload, 'base64url').toString(),
      ) as string[]
      if (tenant === undefined || recipient === undefined || category === undefined) return undefined
      const known = channels.find((each) => each === channel)
      if (known === undefined) return undefined
      const of = { tenant, recipient, category, channel: known }
      return notificationId === undefined ? of : { ...of, notificationId }
    },
  }
}
