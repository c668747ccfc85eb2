/** The oracle of the bounds of a tenant: what it forbids, and what a process cannot know of yet. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Notification, Status } from '../../src/model.ts'
import type { Watched } from './oracle.ts'
import { watchRecord } from './oracle-record.ts'
import { settingsOf } from './settings.ts'
import { createWorld } from './world.ts'

const start = Date.UTC(2026, 10, 21, 12)
const second = 1_000

/** A record of one tenant whose queue holds two, and the oracle that watches it. */
function open() {
  const world = createWorld(1, start, false)
  const record: Watched['record'] = { observers: new Set() }
  const settings = { ...settingsOf(1), queueMax: 2 }
  watchRecord({ world, settings, record, service: { observers: new Set() } } as never as Watched)
  const commit = (change: object): void => {
    for (const observer of record.observers) observer({ method: 'commit', args: [change] })
  }
  const rowOf = (id: string, status: Status, atMs: number) =>
    ({ id, status, tenant: 't1', createdAt: start + atMs, dueAt: start, decision: {} }) as Notification
  return {
    violated: () => world.violations.map(({ invariant }) => invariant),
    async accept(id: string, atMs: number, status: Status = 'queued') {
      await world.run(atMs)
      commit({ accept: [rowOf(id, status, atMs)] })
    },
    /** The message of a digest is accepted when the digest closes. */
    async close(id: string, atMs: number) {
      await world.run(atMs)
      commit({ accept: [{ ...rowOf(id, 'queued', atMs), actors: ['ann'] }] })
    },
    async move(id: string, before: Status, after: Status, atMs: number) {
      await world.run(atMs)
      commit({ moves: [{ before: rowOf(id, before, 0), after: rowOf(id, after, 0) }] })
    },
  }
}

test('an acceptance breaks the bound of a queue that has been full for long', async () => {
  const { accept, violated } = open()
  await accept('a', 0)
  await accept('b', 0)
  await accept('c', 20 * second)
  assert.deepEqual(violated(), ['7 bound'])
})

test('an acceptance may take a place that one left while another process had not heard who moved in', async () => {
  const { accept, move, violated } = open()
  await accept('a', 0)
  await accept('b', 0)
  await accept('c', 0, 'scheduled')
  await move('c', 'scheduled', 'queued', 20 * second)
  await move('a', 'queued', 'delivered', 20 * second + 400)
  await accept('d', 20 * second + 500)
  assert.deepEqual(violated(), [])
})

test('an acceptance may take a place that one left while another process had not heard of a digest that closed', async () => {
  const { accept, close, move, violated } = open()
  await accept('a', 0)
  await accept('b', 0)
  await close('digest', 20 * second)
  await move('a', 'queued', 'delivered', 20 * second + 400)
  await accept('c', 20 * second + 500)
  assert.deepEqual(violated(), [])
})

test('an acceptance breaks the bound of a queue into which one moved long ago', async () => {
  const { accept, move, violated } = open()
  await accept('a', 0)
  await accept('b', 0, 'scheduled')
  await move('b', 'scheduled', 'queued', second)
  await move('a', 'queued', 'sending', 15 * second)
  await accept('c', 30 * second)
  assert.deepEqual(violated(), ['7 bound'])
})
