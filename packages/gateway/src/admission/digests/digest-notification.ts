/**
 * Builds the notification that carries the items of a digest. Pure. It counts all items and shows the first ones, as many
 * as the policy and 1 MiB allow, so that any digest can be stored, rendered and sent.
 */
import type { Digest, JsonObject, Notification, Priority } from '../../model.ts'
import { priorities } from '../../model.ts'
import type { DigestSpec } from '../../policy/policy.ts'

/** Bytes of items that a digest renders, as JSON; the first item is rendered at any size. */
export const shownBytesMax = 2 ** 20

/** Returns the bytes of an item as a digest renders it, as JSON. */
export const shownBytesOf = (item: Notification): number => Buffer.byteLength(JSON.stringify(shownItem(item)))

/** Builds the notification of a digest as limits see it, without content. */
export function digestOf(
  digest: Digest,
  spec: DigestSpec,
  items: readonly Notification[],
  now: number,
): Notification {
  const first = items[0]!
  return {
    id: digest.id,
    tenant: digest.tenant,
    module: first.module,
    to: items.at(-1)!.to,
    channel: digest.channel,
    category: digest.category,
    priority: mostUrgent(items),
    template: spec.template,
    actors: [...new Set(items.map((item) => item.actor ?? ''))],
    createdAt: now,
    fingerprint: digest.id,
    status: 'accepted',
    dueAt: now,
    decision: first.decision,
    digestId: digest.id,
    single: true,
    attempts: 0,
    timeline: [],
  }
}

/** Builds the template data: the shown items and the total count. */
export function digestData(shown: readonly Notification[], totalCount: number): JsonObject {
  return { items: shown.map(shownItem), totalCount, hasMore: totalCount > shown.length }
}

function shownItem(item: Notification): JsonObject {
  const { id, template, actor, data, content, createdAt } = item
  return {
    notificationId: id,
    ...(template === undefined ? {} : { template }),
    ...(actor === undefined ? {} : { actor }),
    ...(data === undefined ? {} : { data }),
    ...(content === undefined ? {} : { content: { ...content } as JsonObject }),
    at: new Date(createdAt).toISOString(),
  }
}

function mostUrgent(items: readonly Notification[]): Priority {
  return priorities.find((priority) => items.some((item) => item.priority === priority)) ?? 'normal'
}
