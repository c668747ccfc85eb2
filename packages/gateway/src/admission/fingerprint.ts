/** What makes two notifications the same: recipient, channel, template, content and data, whatever the order of keys. */
import { encodingOf, joinedPayload } from '../content.ts'
import { digest, partOf } from '../content-digest.ts'
import type { Content, Draft, JsonObject } from '../model.ts'
import { canonical } from '../policy/canonical.ts'

/** Answers for the value that it was asked for last without looking at it again: a batch says the same to everybody. */
function textOnce<T extends Content | JsonObject | null | undefined>(): (value: T) => string {
  let last: { readonly value: T; readonly text: string } | undefined
  return (value) => {
    if (last === undefined || value !== last.value) {
      const known = value === undefined || value === null ? undefined : encodingOf(value)?.canonical
      last = { value, text: known ?? partOf(value) }
    }
    return last.text
  }
}

const contentText = textOnce<Content | undefined>()
const dataText = textOnce<JsonObject | null>()

export function fingerprint(tenant: string, draft: Draft): string {
  const { to, channel, template = null } = draft
  const { content, data = null } = joinedPayload(draft, draft.shared)
  // The canonical text of the list of them, with those of content and data in their places.
  const said = canonical([tenant, to.id, channel, template]).slice(0, -1)
  return digest(`${said},${contentText(content)},${dataText(data)}]`)
}
