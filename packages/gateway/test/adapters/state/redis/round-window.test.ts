/** How many questions a process sends to a server of limiter state at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RoundWindow } from '../../../../src/adapters/state/redis/round-window.ts'

test('fewer questions are sent at once to a server that takes long for a round, and more again when it is quick', () => {
  const window = new RoundWindow(50)
  const before = window.size
  for (let round = 0; round < 10; round += 1) window.answered(window.size, 40)
  assert.ok(window.size >= 1 && window.size < before / 2, `${window.size} after slow rounds`)
  for (let round = 0; round < 20; round += 1) window.answered(window.size, 2)
  assert.ok(window.size > before, `${window.size} after quick rounds`)
})
