/** Oracle 5: many processes against one Redis, and every literal window of the merged log counted. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import process from 'node:process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needs } from '../../../../scripts/services/needs.ts'
import { takerRules } from './redis-rules.ts'

type Answer = readonly [subject: number, instant: number, allowed: 0 | 1, refusedBy: readonly string[]]

const processes = 8
const takesEach = 5_000
const taker = fileURLToPath(new URL('redis-taker.ts', import.meta.url))

test(
  'eight processes together fill every window, overfill none, and are refused only where one is full',
  needs('redis'),
  async (t) => {
    const prefix = `${randomUUID()}:`
    const args = ['--conditions=sluice-source', taker, process.env.SLUICE_TEST_REDIS!, prefix]
    const run = () => promisify(execFile)(process.execPath, args, { maxBuffer: 64 * 1_024 * 1_024 })
    const outputs = await Promise.all(Array.from({ length: processes }, run))
    const answers = outputs.flatMap(({ stdout }) => JSON.parse(stdout) as Answer[])
    assert.equal(answers.length, processes * takesEach)
    let admitted = 0
    for (const subject of new Set(answers.map(([name]) => name))) {
      const own = answers.filter(([name]) => name === subject)
      const gone = own.filter(([, , allowed]) => allowed === 1).map(([, instant]) => instant)
      gone.sort((a, b) => a - b)
      admitted += gone.length
      assert.ok(
        own.every(([, , allowed, by]) => allowed === 1 || by.length > 0),
        `subject ${subject}: somebody was refused for no reason`,
      )
      const within = (windowMs: number, end: number) =>
        gone.filter((at) => at > end - windowMs && at <= end).length
      for (const { name, windows } of takerRules) {
        for (const { max, windowMs, text } of windows) {
          for (const at of gone)
            assert.ok(within(windowMs, at) <= max, `subject ${subject}: ${text} is overfull at ${at}`)
        }
        const refused = new Set(own.filter(([, , , by]) => by.includes(name)).map(([, instant]) => instant))
        for (const at of refused) {
          const full = windows.some(({ max, windowMs }) => within(windowMs, at) >= max)
          assert.ok(full, `subject ${subject}: ${name} refused at ${at} and is not full`)
        }
      }
    }
    assert.ok(admitted > 300, `${admitted} were admitted`)
    t.diagnostic(`${admitted} of ${answers.length} admitted`)
  },
)
