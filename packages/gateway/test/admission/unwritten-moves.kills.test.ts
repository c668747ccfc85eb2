/**
 * A gateway is killed that has moved one up in the limits and not written it, and so is the one that looks behind it, at
 * a step of its look: the third one lets all who wait move up, and no newcomer overtakes them.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Blow, type MortalGateways, openMortalGateways } from '../fleet/mortal-gateways.ts'
import { second } from '../harness.ts'

interface Step {
  readonly method: string
  readonly blow: Blow
}

const steps: readonly Step[] = [
  { method: 'scan', blow: 'before' },
  { method: 'adopt', blow: 'before' },
  { method: 'adopt', blow: 'answered' },
  { method: 'hold', blow: 'answered' },
  { method: 'advance', blow: 'before' },
  { method: 'advance', blow: 'answered' },
  { method: 'commit', blow: 'before' },
  { method: 'commit', blow: 'answered' },
  { method: 'release', blow: 'answered' },
  { method: 'waiting', blow: 'answered' },
]

/** Opens three gateways; the looker is the one that reads who waits behind the death of the first one. */
async function openWithLooker({ method, blow }: Step) {
  let moves = 0
  let looker: number | undefined
  let isStruck = false
  const gateways = await openMortalGateways({
    count: 3,
    limits: [{ name: 'one', per: ['recipient'], max: 1, windowMs: 60 * second, over: 'delay' }],
    strike(call) {
      const isMove = call.process === 1 && call.method === 'advance'
      if (isMove) moves += 1
      if (isMove && moves === 1) return 'answered'
      if (moves > 0 && call.process !== 1 && call.method === 'scan') looker ??= call.process
      if (isStruck || call.process !== looker || call.method !== method) return undefined
      isStruck = true
      return blow
    },
  })
  return { gateways, looker: () => (isStruck ? looker : undefined) }
}

/** Makes a place free at the first gateway; answers the instants that those who wait have then, by what they had before. */
type Free = (
  gateways: MortalGateways,
) => Promise<{ readonly ids: readonly string[]; readonly instants: readonly number[] }>

const ways: Readonly<Record<string, Free>> = {
  async 'a cancellation'(gateways) {
    await gateways.post(1)
    await gateways.runUntil(4 * second)
    const [first, ...others] = [await gateways.post(1), await gateways.post(2), await gateways.post(3)]
    gateways.begin(1, ({ gate }) => gate.cancel(first!.tenant, first!.id))
    return { ids: others.map(({ id }) => id), instants: [first!.dueAt, others[0]!.dueAt, others[1]!.dueAt] }
  },
  async 'shorter quiet hours'(gateways) {
    const saveUntil = (to: string, version?: number) => {
      const quietHours = { default: { from: '11:00', to } }
      const ada = { tenant: 't1', id: 'ada', timeZone: 'UTC', quietHours, ...(version && { version }) }
      gateways.begin(1, ({ gate }) => gate.saveRecipient(ada))
    }
    saveUntil('12:05')
    await gateways.runUntil(4 * second)
    const waiting = [await gateways.post(1), await gateways.post(2), await gateways.post(2)]
    saveUntil('12:01', 1)
    const [first, next] = waiting.map(({ dueAt }) => dueAt)
    const slotMs = next! - first!
    const instants = Array.from({ length: 4 }, (_, index) => first! - 240 * second + index * slotMs)
    return { ids: waiting.map(({ id }) => id), instants }
  },
}

for (const [way, free] of Object.entries(ways))
  for (const step of steps)
    test(`all move up behind ${way}, where the look behind a killed gateway ends ${step.blow === 'before' ? 'before' : 'with'} its first ${step.method}`, async (t) => {
      const { gateways, looker } = await openWithLooker(step)
      t.after(gateways.close)
      await gateways.runUntil(2 * second)
      const { ids, instants } = await free(gateways)
      await gateways.runUntil(gateways.elapsed() + 2 * second)
      assert.equal(gateways.isAlive(1), false)
      // Each death is found after 12 s at least, and is looked behind 5 s later.
      await gateways.runUntil(gateways.elapsed() + 40 * second)
      const other = looker() === 2 ? 3 : 2
      assert.deepEqual([2, 3].filter(gateways.isAlive), [other], 'the looker was killed')
      const found = await Promise.all(ids.map(gateways.notification))
      const newcomer = await gateways.post(other)
      assert.deepEqual(
        [...found, newcomer].map(({ dueAt }) => dueAt),
        instants,
      )
      assert.deepEqual(gateways.violations, [])
    })

for (const method of ['waiting', 'advance'])
  test(`all move up whose gateway is killed before its first ${method} behind shorter quiet hours`, async (t) => {
    let isArmed = false
    const gateways = await openMortalGateways({
      count: 2,
      limits: [{ name: 'one', per: ['recipient'], max: 1, windowMs: 60 * second, over: 'delay' }],
      strike: (call) => (isArmed && call.process === 1 && call.method === method ? 'before' : undefined),
    })
    t.after(gateways.close)
    await gateways.runUntil(2 * second)
    const { ids, instants } = await ways['shorter quiet hours']!(gateways)
    isArmed = true
    await gateways.runUntil(gateways.elapsed() + 22 * second)
    assert.deepEqual([1, 2].filter(gateways.isAlive), [2])
    const found = await Promise.all(ids.map(gateways.notification))
    const newcomer = await gateways.post(2)
    assert.deepEqual(
      [...found, newcomer].map(({ dueAt }) => dueAt),
      instants,
    )
  })
