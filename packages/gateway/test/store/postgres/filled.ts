/** A gateway whose record holds notifications in every state, and what its API says of all of them. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Site } from '../../child.ts'

const hourMs = 3_600_000
export const policy = {
  version: 1,
  limits: [
    { name: 'one', for: { category: 'one' }, max: '1/day', over: 'delay' },
    { name: 'none', for: { category: 'none' }, max: '0/day', over: 'drop' },
    { name: 'aside', for: { category: 'aside', channel: 'push' }, max: '1/day', over: 'fallback:email' },
  ],
  digests: [
    {
      name: 'soon',
      for: { category: 'soon' },
      window: '1s',
      minItems: 2,
      maxItems: 50,
      template: 'activity-digest',
    },
    {
      name: 'later',
      for: { category: 'later' },
      window: '2h',
      minItems: 2,
      maxItems: 50,
      template: 'activity-digest',
    },
  ],
  maxDelay: '7d',
}
const unlimited = { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' }
export const config = {
  http: { publicUrl: 'https://notify.example.com' },
  tenants: {
    default: unlimited,
    slow: { rate: '5/day', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' },
    small: { ...unlimited, waiting: 60 },
  },
  pools: {
    email: {
      provider: 'sandbox',
      retry: { attempts: 1 },
      accounts: [{ id: 'mixed', rate: '500/s', odds: { fail: '10%', reject: '10%' } }],
      breaker: { failures: '100%', inARow: 1_000 },
    },
    push: { provider: 'sandbox' },
    sms: { provider: 'sandbox', accounts: [{ id: 'rare', rate: '3/day' }] },
  },
}

export const states = [
  'scheduled',
  'digesting',
  'queued',
  'dead',
  'delivered',
  'merged',
  'suppressed',
  'failed',
  'cancelled',
] as const
const tenants = ['default', 'slow', 'small'] as const

export interface Listed {
  readonly notificationId: string
  readonly status: string
  readonly createdAt: string
}

export const to = (id: string) => ({
  id,
  email: `${id}@example.com`,
  phone: '+15550100200',
  pushToken: 'ab'.repeat(32),
})
const content = { subject: 'Hello', text: 'Hello' }
const of = (tenant: string) => ({ 'x-tenant-id': tenant })

/** Fills the record of a gateway: every state, jobs, digests, preferences, answers, holds, an erased recipient. */
export async function fill(site: Site): Promise<void> {
  const call = async (method: string, path: string, body?: unknown, headers = {}) => {
    const answer = await site.call(method, `/api/v1${path}`, body, headers)
    assert.ok(answer.status < 300 || answer.status === 429, `${method} ${path}: ${answer.text}`)
    return answer
  }
  const send = (more: object, headers = {}) =>
    call('POST', '/notifications', { recipient: to('ada'), channel: 'email', content, ...more }, headers)
  await call('PUT', '/recipients/out', {
    email: 'out@example.com',
    optOuts: [{ category: 'marketing' }],
    timeZone: 'Europe/Berlin',
  })
  for (let index = 0; index < 40; index += 1) {
    const recipient = to(`r-${index}`)
    const text = { subject: `Message ${index}`, text: 'x'.repeat(10 * index + 1) }
    await Promise.all([
      send({ recipient, content: text }, { 'idempotency-key': `key-${index}` }),
      send({ recipient, category: 'one', content: { ...text, subject: 'first' } }),
      send({ recipient, category: 'one', content: { ...text, subject: 'second' } }),
      send({ recipient, category: 'none' }),
      send({ recipient: to('out'), category: 'marketing', content: text }),
      send({ recipient, channel: 'sms', content: { text: `Text ${index}` } }),
      send({
        recipient: to(`d-${index % 4}`),
        category: 'soon',
        template: 'new-comment',
        data: { n: index },
        content: undefined,
      }),
      send({
        recipient: to(`e-${index % 4}`),
        category: 'later',
        template: 'new-comment',
        data: { n: index },
        content: undefined,
      }),
      send({ recipient: to(`erased-${index % 3}`), content: text }),
      send({ recipient, content: text }, of('slow')),
      send({ recipient: to(`p-${index % 5}`), channel: 'push', category: 'aside', content: text }),
    ])
  }
  const sendAt = new Date(Date.now() + 30 * hourMs).toISOString()
  for (let index = 0; index < 10; index += 1) {
    const later = await send({ sendAt, content: { ...content, text: `Later ${index}` } })
    if (index % 2 === 0) await call('DELETE', `/notifications/${later.json<Listed>().notificationId}`)
  }
  const recipients = (name: string, count: number) =>
    Array.from({ length: count }, (_, n) => to(`${name}-${n}`))
  const large = { subject: 'Batch', text: 'y'.repeat(300_000) }
  await call('POST', '/notifications/batch', {
    recipients: recipients('batch', 400),
    channel: 'email',
    content: large,
    sendAt,
  })
  await call('POST', '/notifications/batch', {
    recipients: recipients('now', 400),
    channel: 'email',
    content: large,
  })
  // A job that has no room for all of it keeps running.
  await call(
    'POST',
    '/notifications/batch',
    { recipients: recipients('part', 150), channel: 'email', content: large, sendAt },
    of('small'),
  )
  const until = new Date(Date.now() + 20 * hourMs).toISOString()
  await call('PUT', '/holds/stopped', { category: 'stopped', until, reason: 'the move' })
  await send({ category: 'stopped', content: { ...content, text: 'Stopped' } })
  for (const name of ['erased-0', 'erased-1']) await call('DELETE', `/recipients/${name}`)
}

async function listed(site: Site, tenant: string): Promise<readonly Listed[]> {
  const found: Listed[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const from: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = (
      await site.call('GET', `/api/v1/notifications?limit=100${from}`, undefined, of(tenant))
    ).json<{
      items: Listed[]
      nextCursor: string | null
    }>()
    found.push(...page.items)
    cursor = page.nextCursor
  }
  return found
}

interface Explained {
  readonly explanation: {
    readonly untilIs?: string
    readonly until?: string
    readonly text?: string
    readonly latenessMs?: number
  }
}

/** The lateness of what is due grows as long as it waits, and an estimate of the future is made anew. */
function withoutAge({ explanation, ...rest }: Explained): object {
  const isEstimate = explanation.untilIs === 'estimate'
  const { until: _until, text: _text, latenessMs: _lateness, ...facts } = explanation
  const { sendAt: _sendAt, ...fields } = rest as { readonly sendAt?: string }
  return isEstimate
    ? { ...fields, explanation: facts }
    : { ...rest, explanation: { ...explanation, latenessMs: undefined } }
}

/** The answers of the API about everything, by path. */
export async function said(site: Site): Promise<ReadonlyMap<string, unknown>> {
  const answers = new Map<string, unknown>()
  for (const tenant of tenants) {
    const items = await listed(site, tenant)
    // The stores order the notifications of one millisecond differently.
    const times = items.map(({ createdAt }) => createdAt)
    answers.set(`${tenant}: the order of the list`, times)
    for (let from = 0; from < items.length; from += 16)
      await Promise.all(
        items.slice(from, from + 16).map(async ({ notificationId: id }) => {
          const { text } = await site.call(
            'GET',
            `/api/v1/notifications/${id}?explain=true`,
            undefined,
            of(tenant),
          )
          answers.set(`${tenant}: ${id}`, withoutAge(JSON.parse(text)))
        }),
      )
  }
  const paths = [
    '/holds',
    '/recipients/out',
    '/recipients/r-1/windows',
    '/dead-letters?limit=100',
    '/recipients/erased-0',
  ]
  for (const path of paths) {
    const { status, text } = await site.call('GET', `/api/v1${path}`)
    const {
      at: _at,
      requestId: _requestId,
      items,
      ...body
    } = JSON.parse(text) as {
      readonly at?: string
      readonly requestId?: string
      readonly items?: readonly Listed[]
    }
    // Dead letters of one millisecond, again.
    const ordered = items?.toSorted((a, b) => (a.notificationId < b.notificationId ? -1 : 1))
    answers.set(path, { status, body, ordered })
  }
  return answers
}

/** Waits until nothing moves any more. */
export async function calm(site: Site): Promise<void> {
  let last = ''
  for (let same = 0; same < 4; ) {
    await sleep(500)
    const counts: Record<string, number> = {}
    for (const tenant of tenants)
      for (const { status } of await listed(site, tenant)) counts[status] = (counts[status] ?? 0) + 1
    const text = JSON.stringify(Object.entries(counts).sort())
    same = text === last ? same + 1 : 0
    last = text
  }
}
