/** Reads of single keys that share a statement. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { gatherReads } from '../../../src/store/postgres/gathered-reads.ts'

function counting(most: number, atOnce: number) {
  const statements: number[][] = []
  const answers: PromiseWithResolvers<void>[] = []
  const read = gatherReads<number, number>({
    async read(keys) {
      statements.push([...keys])
      const answer = Promise.withResolvers<void>()
      answers.push(answer)
      await answer.promise
      return keys.map((key) => 10 * key)
    },
    most,
    atOnce,
  })
  return { statements, answers, read }
}

describe('gathered reads', () => {
  it('share a statement in one turn of the event loop, and each gets its own answer', async () => {
    const { statements, answers, read } = counting(10, 2)
    const values = Promise.all([1, 2, 3].map(read))
    await turn()
    assert.deepEqual(statements, [[1, 2, 3]])
    answers[0]!.resolve()
    assert.deepEqual(await values, [10, 20, 30])
  })

  it('wait where as many statements run as may, and never join one that was sent', async () => {
    const { statements, answers, read } = counting(2, 1)
    const first = Promise.all([1, 2, 3].map(read))
    await turn()
    const later = read(1)
    await turn()
    assert.deepEqual(statements, [[1, 2]])
    answers[0]!.resolve()
    await turn()
    assert.deepEqual(statements, [
      [1, 2],
      [3, 1],
    ])
    answers[1]!.resolve()
    assert.deepEqual([...(await first), await later], [10, 20, 30, 10])
  })

  it('reject together where their statement fails, and those behind it are read', async () => {
    const { answers, read } = counting(2, 1)
    const failed = Promise.allSettled([1, 2].map(read))
    const next = read(3)
    await turn()
    answers[0]!.reject(new Error('the server is away'))
    assert.deepEqual(
      (await failed).map(({ status }) => status),
      ['rejected', 'rejected'],
    )
    await turn()
    answers[1]!.resolve()
    assert.equal(await next, 30)
  })
})
