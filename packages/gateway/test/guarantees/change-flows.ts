/**
 * More flows that read and then commit: a closing by itself, of which every await is met; a recipient who is erased; a start without a pool that there was; dead letters that return by themselves.
 */
import assert from 'node:assert/strict'
import { isFinal } from '../../src/model.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { hour, minute, second } from '../harness.ts'
import type { Flow } from '../interference.ts'
import { cancelled, digest, item, joined, joinedByPost, lateEnds, optedOut, postAll } from './flow-writers.ts'
import { newcomer } from './waiting-flows.ts'

const closing: Flow = {
  name: 'a digest closes, and nothing else happens',
  wholly: { from: 'dueDigests', to: 'nextDigestAt', writer: 'join' },
  afterMs: 15 * minute,
  options: () => ({
    policy: {
      version: 1,
      limits: [
        { name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/h'], over: 'digest:news' },
      ],
      digests: [{ ...digest, minItems: 2 }],
    },
  }),
  async prepare(harness) {
    const authors = ['ada', 'fay', 'bob']
    const ids = await postAll(
      harness,
      authors.map((author, index) => item('eve', author, index)),
    )
    await harness.runUntil(harness.start + 10 * minute - 1)
    return ids
  },
  act: (harness) => harness.runFor(1),
  writers: { join: joined, post: joinedByPost('eve') },
  verify: lateEnds,
}

const few = { version: 1, limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }] }

const erasure: Flow = {
  name: 'a recipient is erased',
  options: () => ({ policy: { ...few, digests: [{ ...digest, minItems: 2 }] } }),
  prepare: (harness) =>
    postAll(harness, [
      { recipient: 'a' },
      { recipient: 'a' },
      { recipient: 'a', sendAt: harness.start + minute },
      item('a', 'bob', 0),
      { recipient: 'b' },
      { recipient: 'b' },
    ]),
  async act({ gateway }) {
    await gateway.erase('default', 'a')
    erased.add(gateway)
  },
  writers: {
    newcomer,
    cancel: cancelled(1),
    join: joinedByPost('a'),
    'opt-out': optedOut('a'),
    erase: ({ gateway }) => gateway.erase('default', 'a'),
  },
  // A process that ends before it has begun to erase leaves them to the hours in which they would have left; the digest
  // has the third one.
  lateMsMax: 3 * hour + second,
  async verify(harness, ids) {
    const all = await Promise.all(ids.map((id) => harness.notification(id)))
    for (const { status } of all) assert.ok(isFinal(status), status)
    const named = all.slice(0, 4).map(({ to }) => to.id === 'a')
    assert.equal(new Set(named).size, 1, 'nobody is erased in part')
    if (erased.has(harness.gateway)) assert.equal(named[0], false, 'what a client was told holds')
    for (const { to } of all.slice(4)) assert.equal(to.email, 'b@example.com')
  },
}
const erased = new WeakSet<object>()

const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d' }
const withPools = (pools: object) => ({
  policy: { ...few, digests: [{ ...digest, minItems: 2 }] },
  config: { pools, tenants: { default: { rate: '5/min', modules: 'unlimited' } } },
})

const poolGone: Flow = {
  name: 'a gateway starts without a pool that there was',
  earlier: () => withPools({ email: pool, sms: pool }),
  options: () => withPools({ email: pool }),
  prepare(harness) {
    const sms = { channel: 'sms' } as const
    return postAll(harness, [
      { ...sms, recipient: 'a' },
      { ...sms, recipient: 'a' },
      { ...sms, recipient: 'b', sendAt: harness.start + minute },
      item('c', 'bob', 0, sms),
      { recipient: 'd', sendAt: harness.start + minute },
      { ...sms, recipient: 'e', expiresAt: harness.start + hour },
      { recipient: 'f' },
    ])
  },
  async act(harness) {
    await harness.gateway.startStages()
    await harness.runFor(2 * minute)
  },
  writers: {
    cancel: cancelled(1),
    'opt-out': optedOut('b'),
    redrive: ({ gateway }) => gateway.gate.redrive({ all: true }),
  },
  // Redriven by hand it is decided anew, waits for its place, and finds no pool then.
  lateMsMax: 2 * hour,
  async verify(harness, ids) {
    for (const id of ids) {
      const { channel, status, timeline } = await harness.notification(id)
      if (channel === 'email') assert.equal(status, 'delivered')
      else if (status === 'dead') assert.equal(timeline.at(-1)!.reason, 'pool_blocked')
    }
  },
}

const automaticRedrive: Flow = {
  name: 'dead letters return by themselves',
  options: () => {
    let calls = 0
    const answer = () => {
      calls += 1
      return calls === 1 ? throttled('60') : delivered
    }
    return {
      policy: { version: 1, limits: [] },
      config: { pools: { email: { ...pool, shedAfter: '1s' }, websocket: pool } },
      parts: { providers: [createScripted(answer).provider] },
    }
  },
  async prepare(harness) {
    const ids = await postAll(
      harness,
      ['a', 'b', 'c'].map((recipient) => ({ recipient })),
    )
    await harness.runFor(10 * second)
    for (const id of ids) assert.equal((await harness.notification(id)).status, 'dead')
    return ids
  },
  act: (harness) => harness.runFor(minute),
  writers: {
    cancel: cancelled(0),
    'opt-out': optedOut('a'),
    redrive: ({ gateway }) => gateway.gate.redrive({ all: true }),
  },
  lateMsMax: 2 * minute,
  async verify(harness, ids) {
    for (const id of ids) {
      const { status } = await harness.notification(id)
      assert.ok(isFinal(status), `${id} is ${status}`)
    }
  },
}

export const changeFlows: readonly Flow[] = [closing, erasure, poolGone, automaticRedrive]
