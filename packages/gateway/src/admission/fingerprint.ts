/** What makes two notifications the same: recipient, channel, template, content and data, whatever the order of keys. */
import { hash } from 'node:crypto'
import { joinedPayload } from '../content.ts'
import type { Content, Draft, JsonObject } from '../model.ts'
import { type Canonicable, canonical } from '../policy/canonical.ts'

/** Above it a value stands in the text by its hash, so that a batch of megabytes is read once and not once a recipient. */
const plainMax = 1_024

/** Answers for the value that it was asked for last without looking at it again: a batch says the same to everybody. */
function textOnce<T extends Canonicable>(): (value: T) => string {
  let last: { readonly value: T; readonly text: string } | undefined
  return (value) => {
    if (last === undefined || value !== last.value) {
      const text = canonical(value)
      last = { value, text: text.length <= plainMax ? text : `#${digest(text)}` }
    }
    return last.text
  }
}

const contentText = textOnce<Content | undefined>()
const dataText = textOnce<JsonObject | null>()

// One-shot hashing measured 1.1 µs for 500 bytes, createHash 2.6 µs (Node 24).
const digest = (text: string): string => hash('sha256', text, 'base64url').slice(0, 22)

export function fingerprint(tenant: string, draft: Draft): string {
  const { to, channel, template = null } = draft
  const { content, data = null } = joinedPayload(draft, draft.shared)
  // The canonical text of the list of them, with those of content and data in their places.
  const said = canonical([tenant, to.id, channel, template]).slice(0, -1)
  return digest(`${said},${contentText(content)},${dataText(data)}]`)
}
