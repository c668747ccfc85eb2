/**
 * The HTTP server on a real socket, before a stub gate and store that record and decide nothing: for the forms
 * of requests and answers. Every answer that passes through `ask` is checked against the published document.
 */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { Ajv, type ValidateFunction } from 'ajv'
import { createMemoryOnce } from '../../src/adapters/one-process.ts'
import { joinedPayload } from '../../src/content.ts'
import { type ErrorCode, SluiceError } from '../../src/errors.ts'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import { createHttpServer } from '../../src/http/server.ts'
import type { HttpServerConfig, HttpServerOptions } from '../../src/http/server-options.ts'
import type { Decision, Draft, Job, Notification, Recipient, Status } from '../../src/model.ts'
import { channels, isFinal, statuses } from '../../src/model.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { Clock, DeadLetterQuery, ListQuery, RecipientKey, Store, StoredAnswer } from '../../src/ports.ts'
import type { Admitted, Gate, Happening, Jobs, Ledger, Live, OpenJob } from '../../src/stages.ts'
import { noPools, stubHolds } from './stub-holds.ts'

export interface Stub {
  readonly url: string
  readonly notifications: Map<string, Notification>
  readonly recipients: Map<string, Recipient>
  readonly jobs: Map<string, Job>
  /** The opened background jobs. */
  readonly opened: OpenJob[]
  readonly answers: StoredAnswer[]
  readonly once: ReturnType<typeof createMemoryOnce>
  readonly live: Map<string, Live>
  /** The drafts that the gate received. */
  readonly drafts: Draft[]
  readonly redrives: unknown[]
  readonly listed: ListQuery[]
  readonly logged: string[]
  readonly listeners: Set<(happening: Happening) => void>
  /** Runs before the gate admits; tests put a promise or an error here. */
  before: () => Promise<void> | void
  /** The decision of the gate. */
  verdict: (draft: Draft) => Partial<Notification> & { readonly queuedBehind?: 'tenant' | 'module' }
  ping: () => Promise<void>
  now: () => number
  ask(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Reply>
  close(): Promise<void>
}

interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: ReplyBody
}

/** Every field of any answer; the document declares which answer has which. */
interface ReplyBody {
  readonly code: ErrorCode
  readonly detail: string
  readonly errors: readonly { readonly path: string; readonly message: string }[]
  readonly notificationId: string
  readonly status: string
  readonly sendAt: string
  readonly createdAt: string
  readonly decision: Readonly<Record<string, unknown>>
  readonly timeline: readonly object[]
  readonly items: readonly ReplyBody[]
  readonly results: readonly ReplyBody[]
  readonly nextCursor: string | null
  readonly [more: string]: unknown
}

export const defaultConfig: HttpServerConfig = {
  host: '127.0.0.1',
  port: 0,
  drainMs: 2_000,
  overLimitStatus: 429,
  requestTimeoutMs: 10_000,
  connectionsMax: 10_000,
  bodyMaxBytes: 1_048_576,
  batchBodyMaxBytes: 8_388_608,
  dataMaxBytes: 65_536,
}

export const email = { id: 'user-42', email: 'ada@example.com' }
export const message = { recipient: email, channel: 'email', content: { subject: 'Hello', text: 'World' } }

export interface StubOptions extends Partial<HttpServerConfig> {
  readonly parts?: Partial<HttpServerOptions>
}

export async function startStub({ parts = {}, ...config }: StubOptions = {}): Promise<Stub> {
  const memory = createMemory()
  const server = createHttpServer({
    config: { ...defaultConfig, ...config },
    ...memory.ports,
    policy: compilePolicy({
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['5/day'], over: 'delay' }],
    }),
    templates: { has: (name) => name === 'new-comment', hasSubject: (name) => name === 'new-comment' },
    channels: channels.filter((channel) => channel !== 'slack'),
    ...{ editor: createRecipientEditor(memory.ports), feedback: { report: async () => {} } },
    webhooks: { take: async () => 0 },
    ...noPools,
    holds: stubHolds(() => memory.stub.now()),
    log: {
      error: (about, text) =>
        memory.stub.logged.push(`${text} ${(about as { err?: Error }).err?.stack ?? ''}`),
    },
    ...parts,
  })
  const url = await server.listen()
  const check = await documentCheck(url)
  const close = once(() => server.close())
  after(close)
  return Object.assign(memory.stub, {
    url,
    close,
    async ask(method: string, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) {
      const place = /^\/(?:healthz|readyz|metrics|openapi\.json|u\/)/.test(path) ? path : `/api/v1${path}`
      const response = await fetch(url + place, {
        method,
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      })
      const text = await response.text()
      const isJson = text !== '' && /json/.test(response.headers.get('content-type') ?? '')
      const reply = {
        status: response.status,
        headers: response.headers,
        text,
        body: isJson ? JSON.parse(text) : {},
      }
      check(method, place.split('?')[0]!, reply)
      return reply
    },
  })
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => (running ??= work())
}

function createMemory() {
  const listeners = new Set<(happening: Happening) => void>()
  let count = 0
  const stub = {
    notifications: new Map<string, Notification>(),
    recipients: new Map<string, Recipient>(),
    jobs: new Map<string, Job>(),
    opened: [] as OpenJob[],
    answers: [] as StoredAnswer[],
    once: createMemoryOnce(),
    live: new Map<string, Live>(),
    drafts: [] as Draft[],
    redrives: [] as unknown[],
    listed: [] as ListQuery[],
    logged: [] as string[],
    listeners,
    before: (): Promise<void> | void => {},
    verdict: (_draft: Draft): ReturnType<Stub['verdict']> => ({}),
    ping: async () => {},
    now: () => Date.now(),
  }

  function accept(request: Parameters<Gate['admit']>[0], { shared, ...own }: Draft): Admitted {
    const draft: Omit<Draft, 'shared'> = { ...own, ...joinedPayload(own, shared) }
    const now = stub.now()
    const { queuedBehind, ...verdict } = stub.verdict(draft)
    const status: Status = verdict.status ?? 'queued'
    const decision: Decision = verdict.decision ?? {
      outcome: 'send',
      at: now,
      policyVersion: 'p1',
      rules: [],
    }
    const notification: Notification = {
      ...draft,
      ...request.caller,
      id: `n${String(++count).padStart(6, '0')}`,
      createdAt: now,
      fingerprint: 'f',
      dueAt: decision.at ?? now,
      attempts: 0,
      timeline: [
        { at: now, status: 'accepted' },
        { at: now, status },
      ],
      ...verdict,
      status,
      decision,
    }
    stub.notifications.set(notification.id, notification)
    for (const listener of listeners) listener({ notification, events: notification.timeline })
    return { notification, ...(queuedBehind === undefined ? {} : { queuedBehind }) }
  }

  const gate: Gate = {
    async admit(request) {
      await stub.before()
      stub.drafts.push(...request.drafts)
      const results = request.drafts.map((draft) => accept(request, draft))
      const answer = request.answer?.(results)
      if (answer !== undefined) stub.answers.push(answer)
      return results
    },
    async preview(_caller, draft) {
      await stub.before()
      stub.drafts.push(draft)
      const { decision, channel } = stub.verdict(draft)
      return {
        draft: channel === undefined ? draft : { ...draft, channel },
        decision: decision ?? { outcome: 'send', policyVersion: 'p1', rules: [] },
      }
    },
    async cancel(tenant, id) {
      const found = await store.notification(tenant, id)
      if (found === undefined) throw new SluiceError('NOT_FOUND', 'There is none.')
      if (found.status === 'cancelled') return
      if (isFinal(found.status)) throw new SluiceError('NOT_CANCELLABLE', `It is ${found.status}.`)
      stub.notifications.set(id, { ...found, status: 'cancelled' })
    },
    saveRecipient: async (of) => stub.recipients.set(`${of.tenant}/${of.id}`, of) !== undefined,
    placeOf: async () => undefined,
    async usage() {
      const counts = { used: 0, max: 0, remaining: 0, reserved: 0 }
      const never = { limit: 'none', window: '0/day', ...counts, freesAt: null }
      return [never, { ...never, limit: 'all', freesAt: 1_800_000_000_000 }]
    },
    resume: async () => {},
    promote: async () => {},
    closeDigest: async () => {},
    async redrive(query) {
      stub.redrives.push(query)
      return { redriven: 3, left: [] }
    },
  }

  /** Opens jobs, and leaves them to the test. */
  const jobs: Jobs = {
    async open(request) {
      await stub.before()
      stub.opened.push(request)
      const { work, refused, caller } = request
      const total = work.recipients.length + refused.length
      const progress = { total, taken: refused.length, refused }
      const job: Job = { ...caller, id: `j${++count}`, createdAt: stub.now(), status: 'running', ...progress }
      stub.jobs.set(job.id, job)
      const answer = request.answer?.(job)
      if (answer !== undefined) stub.answers.push(answer)
      return job
    },
    async cancel(job) {
      if (job.status === 'done') throw new SluiceError('NOT_CANCELLABLE', 'It is done.')
      stub.jobs.set(job.id, { ...job, status: 'cancelled' })
    },
    running: () => stub.jobs.size,
  }

  const store = {
    async job(tenant: string, id: string) {
      const found = stub.jobs.get(id)
      return found?.tenant === tenant ? found : undefined
    },
    async jobMembers({ id }: Job) {
      return [...stub.notifications.values()].filter(({ job }) => job === id)
    },
    async commit() {
      return { applied: true as const }
    },
    async notification(tenant: string, id: string) {
      const found = stub.notifications.get(id)
      return found?.tenant === tenant ? found : undefined
    },
    async list(query: ListQuery) {
      stub.listed.push(query)
      const all = [...stub.notifications.values()].reverse()
      const items = all.filter(
        ({ tenant, to, status }) =>
          tenant === query.tenant &&
          (query.recipient === undefined || to.id === query.recipient) &&
          (query.statuses === undefined || query.statuses.includes(status)),
      )
      return { items: items.slice(0, query.limit), nextCursor: items.length > query.limit ? 'more' : null }
    },
    async deadLetters(_query: DeadLetterQuery) {
      return {
        items: [...stub.notifications.values()].filter(({ status }) => status === 'dead'),
        nextCursor: null,
      }
    },
    feedback: { of: async () => [] },
    intake: { poison: async () => ({ items: [], nextCursor: null }) },
    recipient: async (tenant: string, id: string) => stub.recipients.get(`${tenant}/${id}`),
    async recipients(keys: readonly RecipientKey[]) {
      // As with a real store, others get their turn meanwhile.
      await new Promise(setImmediate)
      return keys.map(({ tenant, recipient }) => stub.recipients.get(`${tenant}/${recipient}`))
    },
    async answer({ tenant, module, method, path, key }: Parameters<Store['answer']>[0]) {
      const name = JSON.stringify([tenant, module, method, path, key])
      return stub.answers.find(
        (each) => name === JSON.stringify([each.tenant, each.module, each.method, each.path, each.key]),
      )
    },
    ping: () => stub.ping(),
  } as unknown as Store

  const ledger = {
    live: (id: string) => stub.live.get(id),
    isSending: () => false,
    async commit({ answer }: { readonly answer?: StoredAnswer }) {
      const applied = answer === undefined || (await store.answer(answer)) === undefined
      if (applied && answer !== undefined) stub.answers.push(answer)
      return { applied, conflicts: [] }
    },
    pruned: () => 0,
    subscribe(listener: (happening: Happening) => void) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    counts() {
      const counts = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>
      for (const { status } of stub.notifications.values()) counts[status] += 1
      return counts
    },
  } as unknown as Ledger

  const clock: Clock = {
    now: () => stub.now(),
    monotonic: () => stub.now(),
    at(instant, callback) {
      const timer = setTimeout(callback, instant - stub.now())
      return () => clearTimeout(timer)
    },
    soon: (callback) => setImmediate(callback),
  }
  const erase = async (tenant: string, id: string) => void stub.recipients.delete(`${tenant}/${id}`)
  const recipients: HttpServerOptions['recipients'] = {
    forget: () => {},
    find: async (tenant, id) => stub.recipients.get(`${tenant}/${id}`) ?? null,
    findAll: (keys) =>
      keys.map(({ tenant, recipient }) => stub.recipients.get(`${tenant}/${recipient}`) ?? null),
  }
  return { stub, ports: { gate, erase, jobs, store, once: stub.once, ledger, recipients, clock } }
}

interface Documented {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Responses }>>>>
}
type Responses = Readonly<
  Record<
    string,
    { readonly content?: Readonly<Record<string, { readonly schema: { readonly $ref?: string } }>> }
  >
>

/** Creates a check that fails for an answer that the document does not declare, or declares otherwise. */
async function documentCheck(url: string) {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Documented
  const ajv = new Ajv({ strict: false, validateFormats: false })
  ajv.addSchema(document, 'openapi')
  const places = Object.entries(document.paths).map(([path, operations]) => ({
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`),
    path,
    operations,
  }))
  const checks = new Map<string, ValidateFunction>()

  return (
    method: string,
    path: string,
    reply: { status: number; headers: Headers; text: string; body: unknown },
  ) => {
    // The literal one of two matching paths wins (OpenAPI 3.1, 4.8.8.1).
    const place =
      places.find((each) => each.path === path) ?? places.find(({ pattern }) => pattern.test(path))
    const operation = place?.operations[method.toLowerCase()]
    if (place === undefined || operation === undefined) return
    const where = `${method} ${place.path} ${reply.status}`
    const declared = operation.responses[reply.status]
    assert.ok(declared !== undefined, `${where} is not declared: ${reply.text}`)
    if (declared.content === undefined) return assert.equal(reply.text, '', where)
    const [[type, { schema }]] = Object.entries(declared.content) as [[string, { schema: { $ref?: string } }]]
    assert.equal(reply.headers.get('content-type')?.split(';')[0], type, where)
    if (schema.$ref === undefined) return
    const check = checks.get(schema.$ref) ?? ajv.compile({ $ref: `openapi${schema.$ref}` })
    checks.set(schema.$ref, check)
    assert.ok(check(reply.body), `${where} answers ${reply.text}: ${JSON.stringify(check.errors)}`)
  }
}
