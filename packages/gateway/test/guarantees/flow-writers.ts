/** Who comes between: the posts of the flows, and the writers that a flow is met by. */
import assert from 'node:assert/strict'
import type { Draft, Notification } from '../../src/model.ts'
import { isFinal } from '../../src/model.ts'
import type { Harness } from '../harness.ts'

export type Post = Partial<Draft> & { readonly recipient?: string }

export const digest = {
  name: 'news',
  for: { template: 'new-comment' },
  window: '10min',
  template: 'activity-digest',
}
export const item = (recipient: string, actor: string, index: number, more: Post = {}): Post => ({
  recipient,
  actor,
  template: 'new-comment',
  data: { index, actor },
  ...more,
})

export async function postAll(harness: Harness, posts: readonly Post[]): Promise<readonly string[]> {
  const ids: string[] = []
  for (const post of posts) ids.push((await harness.post(post)).id)
  return ids
}

/** As a client does it, without waiting for virtual time. */
export const cancelled = (which: number) => (harness: Harness, ids: readonly string[]) =>
  harness.gateway.gate.cancel('default', ids[which]!)

export const optedOut =
  (recipient: string) =>
  ({ gateway }: Harness) =>
    gateway.gate.saveRecipient({ tenant: 'default', id: recipient, optOuts: [{ category: 'product' }] })

export const asleep =
  (recipient: string) =>
  ({ gateway }: Harness) =>
    gateway.gate.saveRecipient({
      tenant: 'default',
      id: recipient,
      timeZone: 'UTC',
      quietHours: { email: { from: '12:00', to: '13:00' } },
    })

/** An item that was decided before a digest began to close, and whose commit is written only now. */
export async function joined({ gateway, clock }: Harness, ids: readonly string[]): Promise<void> {
  const { store, ledger } = gateway
  const like = (await store.notification('default', ids[0]!))!
  const open = await store.openDigest({
    tenant: 'default',
    recipient: like.to.id,
    channel: like.channel,
    category: like.category,
    name: 'news',
  })
  if (open === undefined) return
  const now = clock.now()
  const late: Notification = {
    ...like,
    id: `late-${now}`,
    fingerprint: `late-${now}`,
    actor: 'late',
    createdAt: now,
    status: 'digesting',
    digestId: open.id,
    timeline: [
      { at: now, status: 'accepted' },
      { at: now, status: 'digesting', reason: 'digest' },
    ],
  }
  const { applied } = await ledger.commit({ accept: [late], digests: [{ kind: 'join', digest: open }] })
  if (applied) lates.set(harnessKey(gateway), late.id)
}

/** The same as a client does it. */
export function joinedByPost(recipient: string) {
  return async ({ gateway }: Harness): Promise<void> => {
    const [result] = await gateway.gate.admit({
      caller: { tenant: 'default', module: 'default' },
      drafts: [
        {
          to: { id: recipient, email: `${recipient}@example.com` },
          channel: 'email',
          category: 'product',
          priority: 'normal',
          actor: 'late',
          template: 'new-comment',
          data: { late: true },
        },
      ],
    })
    if (result !== undefined) lates.set(harnessKey(gateway), result.notification.id)
  }
}

const lates = new WeakMap<object, string>()
const harnessKey = (gateway: Harness['gateway']): object => gateway

/** The late item has come to its end with the others. */
export async function lateEnds(harness: Harness): Promise<void> {
  const id = lates.get(harnessKey(harness.gateway))
  if (id === undefined) return
  const { status } = await harness.notification(id)
  assert.ok(isFinal(status), `what joined late has come to its end: it is ${status}`)
}

/** The same digest closed twice at once, as where two looks at the store overlap. */
export function closeOpen(recipient: string) {
  return async ({ gateway }: Harness): Promise<void> => {
    const open = await gateway.store.openDigest({
      tenant: 'default',
      recipient,
      channel: 'email',
      category: 'product',
      name: 'news',
    })
    if (open !== undefined) await gateway.gate.closeDigest(open)
  }
}

export function joinedBy(which: number) {
  return (harness: Harness, ids: readonly string[]): Promise<void> => joined(harness, ids.slice(which))
}
