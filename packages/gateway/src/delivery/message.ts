/** Renders a notification as the message that a provider carries, with its address and unsubscribe link. */
import type { Payload } from '../content.ts'
import type { Content, JsonObject, Notification, Recipient, RecipientFields } from '../model.ts'
import { mergeFields } from '../policy/preferences.ts'
import type { Message, Templates } from '../ports.ts'

export interface Composer {
  readonly templates: Templates
  /** Address of the one-click unsubscribe in mail that is not critical; absent without a public address. */
  readonly unsubscribeUrl?: (notification: Notification) => string
  /** How far the wall clock is ahead of the time line, ms; providers read `expiresAt` by it. @defaultValue 0 */
  readonly aheadMs?: (() => number) | undefined
}

/**
 * Composes the message; `payload` is the whole content. Throws INVALID_REQUEST where the template cannot be rendered.
 */
export function compose(
  composer: Composer,
  notification: Notification,
  payload: Payload,
  recipient: Recipient | null,
): Message {
  const to = mergeFields(notification.to, recipient)
  const unsubscribeUrl =
    notification.channel === 'email' && notification.priority !== 'critical'
      ? composer.unsubscribeUrl?.(notification)
      : undefined
  const { data } = payload
  const { id, tenant, channel, category, attempts, priority, expiresAt } = notification
  const content = contentOf(composer.templates, notification, payload, to, unsubscribeUrl)
  const message: { -readonly [Field in keyof Message]: Message[Field] } = {
    id,
    tenant,
    channel,
    category,
    to,
    content,
    attempt: attempts + 1,
    priority,
  }
  if (data !== undefined) message.data = data
  if (expiresAt !== undefined) message.expiresAt = expiresAt + (composer.aheadMs?.() ?? 0)
  if (unsubscribeUrl !== undefined) message.unsubscribeUrl = unsubscribeUrl
  return message
}

function contentOf(
  templates: Templates,
  notification: Notification,
  { content, data = {} }: Payload,
  to: RecipientFields,
  unsubscribeUrl: string | undefined,
): Content {
  if (content !== undefined) return content
  const locals: JsonObject = {
    recipient: to as unknown as JsonObject,
    data,
    category: notification.category,
    tenant: notification.tenant,
    notificationId: notification.id,
    ...(unsubscribeUrl === undefined ? {} : { unsubscribeUrl }),
  }
  const render = (of: JsonObject): Content =>
    templates.render(notification.template ?? '', notification.channel, { ...locals, data: of })
  return notification.actors === undefined ? render(data) : renderDigest(data, render)
}

/** Renders a digest. If its template cannot render all items, half as many are tried, and `hasMore` is set. */
function renderDigest(data: JsonObject, render: (data: JsonObject) => Content): Content {
  try {
    return render(data)
  } catch (error) {
    const items = Array.isArray(data.items) ? (data.items as readonly JsonObject[]) : []
    if (items.length < 2) throw error
    return renderDigest({ ...data, items: items.slice(0, items.length / 2), hasMore: true }, render)
  }
}
