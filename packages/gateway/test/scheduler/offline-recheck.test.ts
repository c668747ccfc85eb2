/** Recipients are asked for once more when their notifications were put back because nobody was connected. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { awayDetail, type Notification } from '../../src/model.ts'
import { startOfflineRecheck } from '../../src/scheduler/offline-recheck.ts'
import type { Happening } from '../../src/stages.ts'

interface Answer {
  readonly connected: readonly string[]
  readonly isWhole: boolean
}

/** A recheck whose questions get these answers in turn, the last one again and again. */
function start(...answers: readonly Answer[]) {
  const listeners: ((happening: Happening) => void)[] = []
  const asked: (readonly string[])[] = []
  const released: string[] = []
  const timers: (readonly [at: number, callback: () => void])[] = []
  const deaths = new Set<(gone: readonly string[]) => void>()
  const stop = startOfflineRecheck({
    members: {
      onDeath(listener) {
        deaths.add(listener)
        return () => void deaths.delete(listener)
      },
    },
    here: () => ['kim', 'lee'].map((recipient) => ({ tenant: 'acme', recipient })),
    ledger: {
      subscribe(listener) {
        listeners.push(listener)
        return () => void listeners.splice(0)
      },
    },
    async look(names) {
      const { connected, isWhole } = answers[Math.min(asked.length, answers.length - 1)]!
      asked.push(names.map(({ recipient }) => recipient))
      return { connected: names.map(({ recipient }) => connected.includes(recipient)), isWhole }
    },
    onConnect: () => () => {},
    async reconnect(_tenant, recipient) {
      released.push(recipient)
      return true
    },
    clock: {
      now: () => 0,
      soon: setImmediate,
      at(at, callback) {
        const timer = [at, callback] as const
        timers.push(timer)
        return () => void timers.splice(timers.indexOf(timer), 1)
      },
    },
  })
  const turn = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  return {
    asked,
    released,
    timers,
    stop,
    async die(): Promise<void> {
      for (const listener of deaths) listener(['other'])
      for (const listener of deaths) listener(['other'])
      await turn()
    },
    async happen(...notifications: readonly Notification[]): Promise<void> {
      for (const notification of notifications)
        for (const listener of listeners) listener({ notification, events: [] })
      await turn()
    },
    async tick(): Promise<void> {
      for (const [, callback] of timers.splice(0)) callback()
      await turn()
    },
  }
}

const putBack = (recipient: string): Notification =>
  someNotification({
    to: { id: recipient },
    channel: 'websocket',
    status: 'scheduled',
    timeline: [{ at: 0, status: 'scheduled', reason: 'retry', detail: awayDetail }],
  })

test('a recipient who connected while the notification was put back gets it at once', async () => {
  const recheck = start({ connected: ['ada'], isWhole: true })
  await recheck.happen(putBack('ada'), putBack('bob'), putBack('ada'))
  assert.deepEqual([recheck.asked, recheck.released], [[['ada', 'bob']], ['ada']])
  assert.equal(recheck.timers.length, 0)
})

test('other changes of state ask for nobody', async () => {
  const recheck = start({ connected: ['ada'], isWhole: true })
  await recheck.happen(someNotification({ to: { id: 'ada' }, channel: 'websocket', status: 'queued' }))
  assert.deepEqual(recheck.asked, [])
})

test('a process that does not answer is asked again, for those who are not connected elsewhere', async () => {
  const recheck = start(
    { connected: ['ada'], isWhole: false },
    { connected: [], isWhole: false },
    { connected: ['bob'], isWhole: true },
  )
  await recheck.happen(putBack('ada'), putBack('bob'))
  assert.deepEqual(
    recheck.timers.map(([at]) => at),
    [1_000],
  )
  await recheck.tick()
  await recheck.tick()
  await recheck.tick()
  assert.deepEqual(recheck.asked, [['ada', 'bob'], ['bob'], ['bob']])
  assert.deepEqual(recheck.released, ['ada', 'bob'])
})

test('nothing is asked after the end', async () => {
  const recheck = start({ connected: [], isWhole: false })
  await recheck.happen(putBack('ada'))
  recheck.stop()
  await recheck.tick()
  await recheck.happen(putBack('bob'))
  assert.deepEqual(recheck.asked, [['ada']])
})

test('what waits for the recipients who are connected here is looked for when another process has died', async () => {
  const recheck = start({ connected: [], isWhole: true })
  await recheck.die()
  assert.deepEqual(recheck.released, ['kim', 'lee'])
  recheck.stop()
  await recheck.die()
  assert.equal(recheck.released.length, 2)
})
