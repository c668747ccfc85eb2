/**
 * Cursors of lists: an encrypted place in an order, because the plain place would reveal the number of all tenants'
 * notifications. AES-128-GCM under a key of the file's own; the nonce is derived from the place, so that a place has
 * one cursor. A cursor is valid for the tenant whose list returned it.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import { cursorRefusal } from '../../cursor-refusal.ts'

export interface Cursors {
  /** Encrypts a place. `scope` is the list's tenant; empty for a list over all tenants. */
  seal(place: readonly number[], scope: string): string
  /** @throws SluiceError INVALID_REQUEST for text that is no cursor of so many numbers in this scope */
  open(cursor: string, parts: number, scope: string): readonly number[]
}

const algorithm = 'aes-128-gcm'
const keyBytes = 16
const nonceBytes = 12
const tagBytes = 16
const keyName = 'cursor'

/** Creates the key where there is none yet. */
export function makeCursorKey(db: DatabaseSync): void {
  const key = crypto.getRandomValues(new Uint8Array(2 * keyBytes))
  db.prepare('INSERT OR IGNORE INTO meta VALUES (?, ?)').run(keyName, key)
}

export function createCursors(db: DatabaseSync): Cursors {
  const secret = Buffer.from(
    db.prepare('SELECT value FROM meta WHERE name = ?').get(keyName)?.value as Uint8Array,
  )
  const key = secret.subarray(0, keyBytes)
  const nonceKey = secret.subarray(keyBytes)

  function decrypt(bytes: Buffer, scope: string): string | undefined {
    if (bytes.length <= nonceBytes + tagBytes) return undefined
    const decipher = createDecipheriv(algorithm, key, bytes.subarray(0, nonceBytes))
    decipher.setAAD(Buffer.from(scope))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      return (
        decipher.update(bytes.subarray(nonceBytes, -tagBytes), undefined, 'utf8') + decipher.final('utf8')
      )
    } catch {
      return undefined
    }
  }

  return {
    seal(place, scope) {
      const text = place.join('.')
      const nonce = createHmac('sha256', nonceKey)
        .update(`${scope}\0${text}`)
        .digest()
        .subarray(0, nonceBytes)
      const cipher = createCipheriv(algorithm, key, nonce)
      cipher.setAAD(Buffer.from(scope))
      const sealed = Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()])
      return sealed.toString('base64url')
    },
    open(cursor, parts, scope) {
      const bytes = Buffer.from(cursor, 'base64url')
      const numbers = decrypt(bytes, scope)?.split('.').map(Number)
      // Encoding it again must give the same text: Node's decoder ignores a surplus character.
      if (numbers?.length !== parts || bytes.toString('base64url') !== cursor) {
        throw cursorRefusal()
      }
      return numbers
    },
  }
}
