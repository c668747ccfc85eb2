/**
 * The one notification that carries the items of a digest. Pure. It counts all of them and shows the first, as many as
 * the policy and a mebibyte allow, so that whatever was posted can be stored, rendered and sent.
 */
import type { Digest, JsonObject, Notification, Priority } from '../../model.ts'
import { priorities } from '../../model.ts'
import type { DigestSpec } from '../../policy/policy.ts'

/** Bytes of the items that a digest renders, as JSON; the first is rendered whatever its size. */
export const shownBytesMax = 2 ** 20

/** Bytes of an item as a digest renders it, as JSON. */
export const shownBytesOf = (item: Notification): number => Buffer.byteLength(JSON.stringify(shownItem(item)))

/** As limits see it: without what it says. */
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

/** What its template is told: the items that are shown, of so many. */
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
