/** Which changes share a transaction: those of others are not behind somebody's megabytes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChangeLog } from '../../../src/store/sqlite/codec/change-log.ts'
import { changeLogOf as logOf } from '../../../src/store/sqlite/codec/change-log.ts'
import { createGroup } from '../../../src/store/sqlite/worker/group.ts'
import { largeBytes, WriteQueue } from '../../../src/store/sqlite/write-queue.ts'

/** A change log of changes of these sizes. */
const changeLogOf = (...sizes: readonly number[]): ChangeLog =>
  logOf(sizes.map((bytes) => ({ writes: [], bytes })))

function transactions(queue: WriteQueue): number[][] {
  const taken: number[][] = []
  while (!queue.isEmpty) taken.push(queue.take().map(({ id }) => id))
  return taken
}

test('writes one large change per transaction, alternating with the small ones', () => {
  const queue = new WriteQueue()
  for (const id of [1, 2, 3]) queue.put({ id, changeLog: changeLogOf(2_700_000) })
  queue.put({ id: 4, changeLog: changeLogOf(900) })
  queue.put({ id: 5, changeLog: changeLogOf(900, 900) })
  assert.deepEqual(queue.take(), [
    { id: 4, changeLog: changeLogOf(900) },
    { id: 5, changeLog: changeLogOf(900, 900) },
  ])
  assert.deepEqual(
    queue.take().map(({ id }) => id),
    [1],
  )
  queue.put({ id: 6, changeLog: changeLogOf(900) })
  assert.deepEqual(transactions(queue), [[6], [2], [3]])
})

test('a small commit waits for at most one large one, whenever it comes', () => {
  for (let before = 0; before < 6; before += 1) {
    const queue = new WriteQueue()
    for (let id = 1; id <= 20; id += 1) queue.put({ id, changeLog: changeLogOf(largeBytes + 1) })
    queue.put({ id: 21, changeLog: changeLogOf(900) })
    for (let turn = 0; turn < before; turn += 1) queue.take()
    queue.put({ id: 99, changeLog: changeLogOf(900) })
    let bytes = 0
    for (;;) {
      const units = queue.take()
      if (units.some(({ id }) => id === 99)) break
      bytes += units.reduce((sum, { changeLog }) => sum + changeLog.bytes, 0)
    }
    assert.ok(bytes <= largeBytes + 901, `${bytes} bytes before it`)
  }
})

test("sends a large change apart from its turn's small ones, which do not wait for it", async () => {
  const sent: { readonly ids: string[]; readonly bytes: number }[] = []
  const soon: (() => void)[] = []
  const group = createGroup({
    clock: { soon: (run) => void soon.push(run) },
    write: async (changeLog) => {
      const { changes, bytes } = changeLog
      const writes = changes.flatMap((change) => change.writes)
      sent.push({ ids: writes.flatMap((write) => (write.op === 'recipient' ? write.id : [])), bytes })
      return changes.map(() => null)
    },
    raise: () => new Error('none'),
  })
  const commit = (id: string, template = '') =>
    group.commit({ recipients: [{ tenant: 'acme', id, pushToken: template }] })
  const all = Promise.all([commit('a'), commit('b', 'x'.repeat(largeBytes)), commit('c')])
  for (const run of soon) run()
  await all
  assert.deepEqual(
    sent.map(({ ids }) => ids),
    [['b'], ['a', 'c']],
  )
  assert.ok(sent[1]!.bytes < 1_000)
})

test('bounds a transaction of small changes by their number and by their bytes', () => {
  const byNumber = new WriteQueue({ changesMax: 5 })
  for (const id of [1, 2, 3]) byNumber.put({ id, changeLog: changeLogOf(10, 10) })
  assert.deepEqual(transactions(byNumber), [[1, 2], [3]])
  const byBytes = new WriteQueue({ bytesMax: 100_000 })
  for (const id of [1, 2, 3]) byBytes.put({ id, changeLog: changeLogOf(60_000) })
  assert.deepEqual(transactions(byBytes), [[1], [2], [3]])
  const alone = new WriteQueue({ changesMax: 1 })
  alone.put({ id: 1, changeLog: changeLogOf(10, 10) })
  assert.deepEqual(transactions(alone), [[1]])
})
