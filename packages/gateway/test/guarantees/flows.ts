/** The flows that read and then commit, each as small as shows it: what stands ready, what is done, who comes between. */
import assert from 'node:assert/strict'
import type { Draft } from '../../src/model.ts'
import { isFinal } from '../../src/model.ts'
import type { SendResult, StoredAnswer } from '../../src/ports.ts'
import type { Caller } from '../../src/stages.ts'
import { broken, createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { type Harness, hour, minute, second } from '../harness.ts'
import { workFor } from '../http/job-harness.ts'
import type { Flow } from '../interference.ts'
import { changeFlows } from './change-flows.ts'
import {
  asleep,
  cancelled,
  closeOpen,
  digest,
  item,
  joined,
  joinedBy,
  lateEnds,
  optedOut,
  type Post,
  postAll,
} from './flow-writers.ts'
import { holdFlows } from './hold-flows.ts'
import { waitingFlows } from './waiting-flows.ts'

const closing: Flow = {
  name: 'a digest closes',
  options: () => ({
    policy: {
      version: 1,
      limits: [
        { name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/h'], over: 'digest:news' },
      ],
      digests: [{ ...digest, minItems: 3 }],
    },
  }),
  async prepare(harness) {
    const text = { subject: 'x', text: 'x' }
    await harness.post({ recipient: 'eve', actor: 'bob', content: text })
    const ids = await postAll(harness, [
      ...[0, 1, 2, 3].map((index) => item('eve', `author-${index}`, index)),
      item('eve', 'bob', 4),
      ...[0, 1].map((index) => item('fay', `author-${index}`, index)),
    ])
    await harness.runFor(9 * minute)
    return ids
  },
  act: (harness) => harness.runFor(2 * minute),
  writers: { join: joined, cancel: cancelled(0), 'opt-out': optedOut('eve'), close: closeOpen('eve') },
  // An author of whom one more was sent meanwhile has his next place an hour later.
  lateMsMax: 70 * minute,
  verify: lateEnds,
}

const line: Flow = {
  name: 'turns in a tenant’s line come, and what stood there joins a digest',
  options: () => ({
    policy: { version: 1, limits: [], digests: [{ ...digest, window: '2min', minItems: 2 }] },
    config: { tenants: { default: { rate: '2/min', modules: 'unlimited' } } },
  }),
  async prepare(harness) {
    const plain = (recipient: string): Post => ({ recipient })
    return postAll(harness, [
      plain('a'),
      plain('b'),
      ...[0, 1, 2, 3, 4].map((index) => item('eve', 'bob', index)),
      plain('c'),
    ])
  },
  act: (harness) => harness.runFor(4 * minute),
  writers: {
    cancel: cancelled(4),
    'opt-out': optedOut('eve'),
    sleep: asleep('c'),
    join: joinedBy(3),
    close: closeOpen('eve'),
  },
  lateMsMax: 2 * hour,
  verify: lateEnds,
}

const sendAt: Flow = {
  name: 'what waited for its sendAt is decided',
  options: () => ({
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['2/10min'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
    },
  }),
  async prepare(harness) {
    const at = harness.start + minute
    return postAll(harness, [
      item('eve', 'bob', 0, { sendAt: at }),
      item('eve', 'bob', 1, { sendAt: at }),
      item('eve', 'bob', 2, { sendAt: at + minute }),
      { recipient: 'eve', sendAt: at },
    ])
  },
  act: (harness) => harness.runFor(3 * minute),
  writers: { cancel: cancelled(0), 'opt-out': optedOut('eve'), join: joined, close: closeOpen('eve') },
  lateMsMax: 2 * hour,
  verify: lateEnds,
}

const cancellation: Flow = {
  name: 'what waits is cancelled',
  options: () => ({
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }],
      digests: [digest],
    },
    config: { tenants: { default: { rate: '5/min', modules: 'unlimited' } } },
  }),
  prepare: (harness) =>
    postAll(harness, [
      { recipient: 'a' },
      { recipient: 'a' },
      item('eve', 'bob', 0),
      { recipient: 'b', sendAt: harness.start + minute },
      { recipient: 'c' },
      { recipient: 'd' },
    ]),
  async act({ gateway }, ids) {
    const told = await Promise.allSettled(ids.slice(1).map((id) => gateway.gate.cancel('default', id)))
    promises.set(
      gateway,
      ids.slice(1).filter((_, index) => told[index]?.status === 'fulfilled'),
    )
  },
  writers: { cancel: cancelled(1), 'opt-out': optedOut('a'), sleep: asleep('a'), close: closeOpen('eve') },
  lateMsMax: 2 * hour,
  async verify(harness) {
    for (const id of promises.get(harness.gateway) ?? []) {
      assert.equal((await harness.notification(id)).status, 'cancelled', 'what a client was told holds')
      assert.ok(!harness.sent().some((sent) => sent.id === id))
    }
  },
}
const promises = new WeakMap<object, readonly string[]>()

const lost: SendResult = { outcome: 'unknown', detail: 'reset' }

/** The first answers, then everything is delivered. */
const answering = (...answers: readonly SendResult[]) =>
  createScripted((number) => answers[number - 1] ?? delivered).provider

const redrive: Flow = {
  name: 'dead letters are redriven',
  options: () => ({
    policy: { version: 1, limits: [{ name: 'few', for: 'any', max: ['2/10min'], over: 'delay' }] },
    parts: { providers: [answering(lost, lost, lost)] },
  }),
  async prepare(harness) {
    const ids = await postAll(harness, [{ recipient: 'a' }, { recipient: 'a' }, { recipient: 'b' }])
    await harness.runFor(minute)
    return ids
  },
  act: ({ gateway }) => gateway.gate.redrive({ all: true }),
  writers: {
    cancel: cancelled(0),
    redrive: ({ gateway }) => gateway.gate.redrive({ all: true }),
    'opt-out': optedOut('a'),
  },
  lateMsMax: hour,
  async verify(harness, ids, disturbed) {
    if (disturbed?.event.kind === 'end' || disturbed?.event.kind === 'failure') return
    for (const id of ids) {
      const { status } = await harness.notification(id)
      assert.ok(isFinal(status) || disturbed?.event.kind === 'refusal', `${id} is ${status}`)
    }
  },
}

const preferences: Flow = {
  name: 'a preference changes, and then another one',
  options: () => ({
    policy: {
      version: 1,
      limits: [{ name: 'few', for: { template: 'notification' }, max: ['1/h'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
      quietHours: { default: { from: '11:00', to: '14:00', channels: ['email'] } },
    },
  }),
  prepare: (harness) =>
    postAll(harness, [
      { recipient: 'a' },
      { recipient: 'a' },
      item('a', 'bob', 0),
      item('a', 'bob', 1),
      { recipient: 'a', sendAt: harness.start + 5 * minute, template: 'notification', data: { title: 'x' } },
    ]),
  async act(harness) {
    await asleep('a')(harness)
    await harness.runFor(minute)
    await optedOut('a')(harness)
  },
  writers: { cancel: cancelled(1), wake: asleep('a'), join: joinedBy(2), close: closeOpen('a') },
  lateMsMax: 3 * hour,
  async verify(harness, ids, disturbed) {
    await lateEnds(harness)
    if (disturbed !== undefined) return
    for (const id of ids) assert.equal((await harness.notification(id)).status, 'suppressed')
  },
}

const mine: Caller = { tenant: 'default', module: 'default' }

const job: Flow = {
  name: 'a batch is accepted in the background',
  options: () => ({
    policy: { version: 1, limits: [], digests: [{ ...digest, minItems: 2 }] },
  }),
  prepare: async () => [],
  async act(harness) {
    const { jobs } = harness.gateway
    const opened = await jobs.open({ caller: mine, work: workFor(45), refused: [] })
    opens.set(harness.gateway, opened.id)
    await harness.runFor(5 * second)
  },
  writers: {
    async cancel({ gateway }) {
      for (const running of await gateway.store.runningJobs()) await gateway.jobs.cancel(running)
    },
    'opt-out': optedOut('r30'),
  },
  async verify(harness, _ids, disturbed) {
    const { store } = harness.gateway
    assert.deepEqual(await store.runningJobs(), [])
    const id = opens.get(harness.gateway)
    if (id === undefined) return
    const found = (await store.job('default', id))!
    const members = await store.jobMembers(found)
    const isCancelled = disturbed?.event.kind === 'writer' && disturbed.event.name === 'cancel'
    if (!isCancelled) assert.deepEqual([found.status, members.length], ['done', 45])
    assert.equal(new Set(members.map((member) => member.id)).size, members.length)
    for (const { status } of members) assert.ok(isFinal(status), status)
  },
}
const opens = new WeakMap<object, string>()

const expiry: Flow = {
  name: 'what waits comes to its own end',
  options: () => ({
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
    },
    config: { tenants: { default: { rate: '4/min', modules: 'unlimited' } } },
  }),
  prepare(harness) {
    const expiresAt = harness.start + 30 * second
    return postAll(harness, [
      { recipient: 'a' },
      { recipient: 'a', expiresAt },
      item('eve', 'bob', 0, { expiresAt }),
      item('eve', 'bob', 1),
      { recipient: 'b', expiresAt },
      { recipient: 'b', expiresAt: expiresAt + 1 },
    ])
  },
  act: (harness) => harness.runFor(11 * minute),
  writers: { cancel: cancelled(1), 'opt-out': optedOut('b'), sleep: asleep('a'), close: closeOpen('eve') },
  lateMsMax: 2 * hour,
}

const retention: Flow = {
  name: 'what is over is forgotten',
  options: () => ({ policy: { version: 1, limits: [], digests: [digest] } }),
  async prepare(harness) {
    await postAll(harness, [{ recipient: 'a' }, { recipient: 'b' }])
    await harness.runFor(hour)
    return postAll(harness, [{ recipient: 'a', sendAt: harness.clock.now() + minute }, item('eve', 'bob', 1)])
  },
  async act({ gateway, clock }) {
    const before = clock.now() - 30 * minute
    await gateway.ledger.prune({ answers: before, notifications: before })
  },
  writers: {
    cancel: cancelled(0),
    post: ({ gateway }) =>
      gateway.gate.admit({
        caller: mine,
        drafts: [
          {
            to: { id: 'new', email: 'new@example.com' },
            channel: 'email',
            category: 'product',
            priority: 'normal',
            content: { subject: 'new', text: 'new' },
          },
        ],
      }),
  },
  lateMsMax: hour,
}

const settlement: Flow = {
  name: 'what a provider answered is written',
  options: () => ({
    policy: { version: 1, limits: [{ name: 'few', for: 'any', max: ['3/h'], over: 'delay' }] },
    parts: { providers: [answering(broken, throttled('2'), lost, broken)] },
  }),
  prepare: (harness) =>
    postAll(
      harness,
      ['a', 'b', 'c', 'd'].map((recipient) => ({ recipient, sendAt: harness.start + second })),
    ),
  act: (harness) => harness.runFor(30 * second),
  writers: { cancel: cancelled(0), 'opt-out': optedOut('b'), sleep: asleep('a') },
  lateMsMax: 2 * hour,
}

const idempotency: Flow = {
  name: 'the same request comes twice',
  options: () => ({ policy: { version: 1, limits: [] } }),
  prepare: async () => [],
  act: accept,
  writers: { same: accept },
  async verify(harness) {
    const { items } = await harness.gateway.store.list({ tenant: 'default', limit: 10 })
    assert.ok(items.length <= 1, `${items.length} are accepted under one key`)
    for (const { status } of items) assert.equal(status, 'delivered')
    const stored = await harness.gateway.store.answer(answer)
    assert.equal(stored === undefined ? 0 : 1, items.length, 'its answer is kept with it')
  },
}
const answer: StoredAnswer = {
  ...mine,
  method: 'POST',
  path: '/notifications',
  key: 'key-1',
  requestHash: 'hash',
  status: 202,
  body: '{}',
  createdAt: Date.UTC(2026, 10, 21, 12),
}
function accept({ gateway }: Harness): Promise<unknown> {
  const draft: Draft = {
    to: { id: 'a', email: 'a@example.com' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: 'once', text: 'once' },
  }
  return gateway.gate.admit({ caller: mine, drafts: [draft], answer: () => answer })
}

export const flows: readonly Flow[] = [
  closing,
  line,
  sendAt,
  cancellation,
  redrive,
  preferences,
  job,
  expiry,
  retention,
  settlement,
  idempotency,
  ...changeFlows,
  ...holdFlows,
  ...waitingFlows,
]
