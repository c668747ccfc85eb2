/** What makes two notifications the same: recipient, channel, template, content and data, whatever the order of keys. */
import { hash } from 'node:crypto'
import type { Draft } from '../model.ts'
import { canonical } from '../policy/canonical.ts'

export function fingerprint(tenant: string, draft: Draft): string {
  const { to, channel, template, content, data } = draft
  // One-shot hashing measured 1.1 µs for 500 bytes, createHash 2.6 µs (Node 24).
  return hash(
    'sha256',
    canonical([tenant, to.id, channel, template ?? null, content ?? null, data ?? null]),
    'base64url',
  ).slice(0, 22)
}
