/** How often those who wait in a subject move up because it was filled under other rules. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOutdatedSubjects } from '../../../../src/adapters/state/redis/outdated-subjects.ts'
import type { Subject } from '../../../../src/ports.ts'

const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }

test('those of a subject that have just moved up do so once more ten seconds later, however often it is put off', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  let now = 0
  const reported: string[] = []
  const subjects = createOutdatedSubjects({ monotonic: () => now }, ({ key }) => reported.push(key))
  function pass(ms: number): void {
    now += ms
    t.mock.timers.tick(ms)
  }
  assert.equal(subjects.hasMovedUp(ada), false)
  subjects.movesUp(ada)
  assert.deepEqual([subjects.hasMovedUp(ada), subjects.hasMovedUp(bob)], [true, false])
  for (let time = 0; time < 3; time += 1) {
    subjects.putOff(ada)
    pass(3_000)
  }
  assert.deepEqual(reported, [])
  pass(1_000)
  assert.deepEqual(reported, [ada.key])
  assert.equal(subjects.hasMovedUp(ada), false)
  subjects.putOff(ada)
  subjects.close()
  pass(20_000)
  assert.equal(reported.length, 1, 'nothing is reported after the end')
})
