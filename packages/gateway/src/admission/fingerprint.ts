/** What makes two notifications the same: recipient, channel, template, content and data, whatever the order of keys. */
import { hash } from 'node:crypto'
import type { Content, Draft } from '../model.ts'
import { canonical } from '../policy/canonical.ts'

let last: { readonly content: Content | undefined; readonly text: string } = {
  content: undefined,
  text: 'null',
}

/** A batch says the same to all of its recipients. */
function contentText(content: Content | undefined): string {
  if (content !== last.content) last = { content, text: canonical(content) }
  return last.text
}

export function fingerprint(tenant: string, draft: Draft): string {
  const { to, channel, template = null, content, data = null } = draft
  // The canonical text of the list of them, with that of the content in its place.
  const said = canonical([tenant, to.id, channel, template]).slice(0, -1)
  // One-shot hashing measured 1.1 µs for 500 bytes, createHash 2.6 µs (Node 24).
  const text = `${said},${contentText(content)},${canonical(data)}]`
  return hash('sha256', text, 'base64url').slice(0, 22)
}
