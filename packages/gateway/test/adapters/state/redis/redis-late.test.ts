/** Subjects in Redis that are late: one process plans, and nothing of the subject is fired meanwhile in any. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { HeldMove, PlanLate } from '../../../../src/ports/limiter.ts'
import { openLimits } from './open-limits.ts'

const subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const rules = [limit('all', '1/10s', { stream: 'all' })]
const request = (id: string) => ({ subject, id, rules })
const moveTo = (id: string, at: number): HeldMove => ({
  id,
  at,
  subjects: [{ subject, streams: ['all'] }],
})

/** Three notifications are 60 s late in a subject of two processes; the plan of the first one waits until it is let go. */
async function lateSubject(movesAt: (now: number) => readonly HeldMove[] = () => []) {
  const { promise: isLetGo, resolve: letGo } = Promise.withResolvers<void>()
  const opened = openLimits('redis')
  const { openState, now, until } = opened
  const planned: (readonly string[])[] = []
  const read: string[] = []
  const planLate: PlanLate = async ({ refused, kept = [] }, entries) => {
    planned.push([...refused, ...Array.from(kept, (id) => `${id} kept`)])
    for (const { id, fired } of await entries.read(subject)) read.push(`${id}${fired ? ' fired' : ''}`)
    await isLetGo
    await entries.peek([subject])
    await entries.move(movesAt(now()))
  }
  const first = openState({ planLate })
  const second = openState({ planLate })
  for (const id of ['1', '2', '3']) await first.reserve([request(id)])
  await until(now() + 60_000)
  /** Resolves when the plan has read the subject and waits. */
  const isPlanning = async (): Promise<void> => {
    for (const end = performance.now() + 60_000; read.length < 3; await sleep(5))
      assert.ok(performance.now() < end, 'the subject is planned within a minute')
  }
  return { ...opened, first, second, letGo, planned, read, isPlanning }
}

describe('a late subject in Redis', needs('redis'), () => {
  it('is planned by the process that meets it, and what another process fires gets its planned place', async () => {
    const { first, second, letGo, planned, read, now, isPlanning } = await lateSubject((at) => [
      moveTo('2', at + 30_000),
      moveTo('3', at + 40_000),
    ])
    assert.equal((await first.fire([request('1')]))[0]!.fired, true)
    const planning = first.fire([request('2')])
    await isPlanning()
    const meanwhile = second.fire([request('3')])
    await sleep(30)
    assert.deepEqual(planned, [['2']])
    assert.deepEqual(read.toSorted(), ['1 fired', '2', '3'])
    letGo()
    assert.deepEqual(await planning, [{ fired: false, at: now() + 30_000 }])
    assert.deepEqual(await meanwhile, [{ fired: false, at: now() + 40_000 }])
    assert.deepEqual(planned, [['2']], 'the subject is planned once')
  })

  it('is planned around an id that was held up at its instant, and nothing of it is fired meanwhile', async () => {
    const { first, second, letGo, planned, now, isPlanning } = await lateSubject((at) => [
      moveTo('3', at + 40_000),
    ])
    const planning = first.planAround([{ subject, id: '2' }])
    await isPlanning()
    let isFired = false
    const firing = second.fire([request('3')]).finally(() => {
      isFired = true
    })
    await sleep(30)
    assert.deepEqual([planned, isFired], [[['2 kept']], false])
    letGo()
    await planning
    assert.deepEqual(await firing, [{ fired: false, at: now() + 40_000 }])
    assert.deepEqual(planned, [['2 kept']], 'the subject is planned once')
  })

  it('lets no newcomer of any process in while it is planned', async () => {
    const { first, second, letGo, isPlanning } = await lateSubject()
    const firing = first.fire(['1', '2'].map(request))
    await isPlanning()
    let reserved = 0
    const newcomers = [first, second].map(async (state, index) => {
      await state.reserve([request(`new ${index}`)])
      reserved += 1
    })
    await sleep(30)
    assert.equal(reserved, 0)
    letGo()
    await firing
    await Promise.all(newcomers)
  })

  it('leaves one where it stands that was cancelled or fired since it was read', async () => {
    let cancelled = Promise.resolve<unknown>(undefined)
    const { state, openState, now, until } = openLimits('redis')
    const planLate: PlanLate = async (_, entries) => {
      await entries.peek([subject])
      cancelled = state.cancel([{ subject, id: '3' }])
      await cancelled
      await entries.move([moveTo('3', now() + 30_000)])
    }
    const own = openState({ planLate })
    for (const id of ['1', '2', '3']) await own.reserve([request(id)])
    await until(now() + 60_000)
    await own.fire(['1', '2'].map(request))
    assert.deepEqual(await state.waiting(subject), ['2'])
  })

  it('is fired again some seconds after the process has died that planned it', async () => {
    const { first, openState, now, until, isPlanning } = await lateSubject()
    const other = openState()
    assert.equal((await first.fire([request('1')]))[0]!.fired, true)
    // It plans for ever, and its holds are not renewed before they lapse on the clock of the test.
    void first.fire([request('2')]).catch(() => undefined)
    await isPlanning()
    let isAnswered = false
    const firing = other.fire([request('3')]).finally(() => {
      isAnswered = true
    })
    await sleep(60)
    assert.equal(isAnswered, false)
    await until(now() + 5_000)
    assert.equal((await firing)[0]!.fired, false)
  })
})
