/** How often those who wait in a subject move up because it was filled under other rules. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOutdatedSubjects } from '../../../../src/adapters/state/redis/outdated-subjects.ts'
import type { Subject } from '../../../../src/ports.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'

const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }
const second = 1_000

function open() {
  const clock = createVirtualClock(1_000_000)
  const reported: string[] = []
  const subjects = createOutdatedSubjects(clock, ({ key }) => reported.push(key))
  return { subjects, reported, pass: (ms: number) => clock.runUntil(clock.now() + ms) }
}

test('those of a subject that have just moved up do so once more ten seconds later, however often it is put off', async () => {
  const { subjects, reported, pass } = open()
  assert.equal(subjects.hasMovedUp(ada), false)
  subjects.movesUp(ada)
  subjects.ends(ada)
  assert.deepEqual([subjects.hasMovedUp(ada), subjects.hasMovedUp(bob)], [true, false])
  for (let time = 0; time < 3; time += 1) {
    subjects.putOff(ada)
    await pass(3 * second)
  }
  assert.deepEqual(reported, [])
  await pass(second)
  assert.deepEqual(reported, [ada.key])
  assert.equal(subjects.hasMovedUp(ada), false)
})

test('a subject rests for four times as long as those who wait took to move up', async () => {
  const { subjects, reported, pass } = open()
  subjects.movesUp(ada)
  await pass(5 * second)
  subjects.ends(ada)
  subjects.putOff(ada)
  await pass(19 * second)
  assert.deepEqual(reported, [])
  await pass(second)
  assert.deepEqual(reported, [ada.key])
})

test('one whose end nobody tells is taken for moved up after a minute', async () => {
  const { subjects, reported, pass } = open()
  subjects.movesUp(ada)
  subjects.putOff(ada)
  await pass(59 * second)
  assert.deepEqual(reported, [])
  await pass(second)
  assert.deepEqual(reported, [ada.key])
})

test('nothing is put off after the end, and nothing reported', async () => {
  const { subjects, reported, pass } = open()
  subjects.movesUp(ada)
  subjects.ends(ada)
  subjects.putOff(ada)
  subjects.close()
  subjects.putOff(bob)
  await pass(20 * second)
  assert.deepEqual(reported, [])
})

test('where too many are put off a further one moves up at once', async () => {
  const { subjects, reported } = open()
  for (let n = 0; n < 10_000; n += 1) subjects.putOff({ ...ada, key: `acme/${n}` })
  assert.deepEqual(reported, [])
  subjects.putOff(ada)
  assert.deepEqual(reported, [ada.key])
  subjects.close()
})
