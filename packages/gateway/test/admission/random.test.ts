/**
 * Random posts, cancellations, preference changes, redrives and restarts in an order given by a seed, against a provider
 * that fails, rejects and throttles. All counts agree and every notification ends.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Draft } from '../../src/model.ts'
import { type Channel, isFinal } from '../../src/model.ts'
import { broken, createScripted, delivered, refused, throttled } from '../delivery/scripted.ts'
import { createHarness, day, densest, type Harness, hour, minute, seeded, testSeed } from '../harness.ts'

const policy = {
  version: 1,
  maxDelay: '5h',
  deduplication: { window: '1h' },
  limits: [
    { name: 'email', for: { channel: 'email' }, max: ['3/h'], over: 'delay' },
    { name: 'sms', for: { channel: 'sms' }, max: ['2/h'], over: 'fallback:email' },
    {
      name: 'author',
      for: { category: 'activity' },
      per: ['recipient', 'actor'],
      max: ['2/h'],
      over: 'digest:news',
    },
    { name: 'all', for: 'any', max: ['10/h'], minGap: '1s', over: 'drop' },
    { name: 'tenant', for: { category: 'rare' }, per: ['tenant'], max: ['5/h'], over: 'delay' },
  ],
  digests: [
    {
      name: 'news',
      for: { template: 'new-comment' },
      window: '1h',
      minItems: 2,
      maxItems: 3,
      template: 'activity-digest',
    },
  ],
  quietHours: { default: { from: '22:00', to: '23:00', channels: ['sms', 'email'] }, spread: '2min' },
}

test('every notification ends in one state, in time and within the limits, under random posts, cancellations, redrives and restarts', async (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed + 41)
  const below = (n: number): number => Math.floor(chance() * n)
  const one = <T>(of: readonly T[]): T => of[below(of.length)]!
  const { provider } = createScripted(() => {
    const fate = below(40)
    if (fate < 12) return broken
    if (fate < 14) return refused
    return fate < 18 ? throttled('3') : delivered
  })
  const folder = mkdtempSync(join(tmpdir(), 'sluice-random-'))
  const options = {
    file: join(folder, 'sluice.db'),
    parts: { providers: [provider] },
    policy,
    config: { tenants: { default: { rate: '20/min', modules: '15/min' } } },
  }
  let harness: Harness = await createHarness(options)
  const ids: string[] = []

  function draft(): Partial<Draft> & { recipient: string } {
    const now = harness.clock.now()
    return {
      recipient: `u${below(4)}`,
      channel: one<Channel>(['email', 'sms', 'push']),
      category: one(['product', 'activity', 'rare']),
      actor: `author-${below(2)}`,
      ...(below(3) === 0 ? { template: 'new-comment', data: { index: below(30) } } : {}),
      ...(below(5) === 0 ? { sendAt: now + below(2 * hour) } : {}),
      ...(below(5) === 0 ? { expiresAt: now + 1 + below(3 * hour) } : {}),
      ...(below(12) === 0 ? { priority: 'critical' } : {}),
    }
  }

  async function step(): Promise<void> {
    const { gate } = harness.gateway
    const what = below(20)
    if (what < 12) ids.push((await harness.post(draft())).id)
    else if (what < 14 && ids.length > 0) {
      await harness.done(gate.cancel('default', one(ids))).catch((error: unknown) => {
        if (!(error instanceof SluiceError) || error.code !== 'NOT_CANCELLABLE') throw error
      })
    } else if (what === 14) {
      const optOuts = below(2) === 0 ? [] : [{ category: 'rare' }]
      const timeZone = one(['Europe/Rome', 'UTC', 'America/New_York'])
      await harness.done(gate.saveRecipient({ tenant: 'default', id: `u${below(4)}`, optOuts, timeZone }))
    } else if (what === 15) await harness.done(gate.redrive({ all: true }))
    else if (what === 16 && below(3) === 0) {
      const now = harness.clock.now()
      await harness.check()
      await harness.stop()
      harness = await createHarness({ ...options, start: now + below(20 * minute) })
    } else await harness.runFor(below(10 * minute))
  }

  for (let steps = 0; steps < 250; steps += 1) await step()
  await harness.runFor(day)
  await harness.done(harness.gateway.gate.redrive({ all: true }))
  await harness.runFor(day)

  const arrived = new Map<string, number[]>()
  for (const id of ids) {
    const { status, channel, to, priority, expiresAt, timeline } = await harness.notification(id)
    assert.ok(isFinal(status) || status === 'dead', `${id} is ${status}`)
    if (status !== 'delivered') continue
    const { at } = timeline.at(-1)!
    if (expiresAt !== undefined) assert.ok(at < expiresAt, `${id} was sent after its end`)
    if (channel !== 'email' || priority === 'critical') continue
    arrived.set(to.id, [...(arrived.get(to.id) ?? []), at])
  }
  for (const [recipient, instants] of arrived)
    assert.ok(densest(instants, hour) <= 3, `${recipient} got more than 3 in an hour`)
  await harness.check()
  await harness.stop()
  rmSync(folder, { recursive: true })
})
