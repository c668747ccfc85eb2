/** The fingerprint of a notification: recipient, channel, template, content and data, independent of key order. */
import { encodingOf, joinedPayload } from '../content.ts'
import { digest, partOf } from '../content-digest.ts'
import type { Content, Draft, JsonObject } from '../model.ts'
import { canonical } from '../policy/canonical.ts'

/** Remembers the text of the last value: all notifications of a batch share their content. */
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
  // The canonical text of the whole list, assembled from that of its head and the remembered texts.
  const head = canonical([tenant, to.id, channel, template]).slice(0, -1)
  return digest(`${head},${contentText(content)},${dataText(data)}]`)
}
