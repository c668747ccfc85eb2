import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { createOrphans } from '../../../src/admission/digests/orphans.ts'
import { someNotification } from '../../../src/conformance/store/sample.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { createHarness, day, hour, minute, second } from '../../harness.ts'

const policy = {
  version: 1,
  limits: [],
  digests: [{ name: 'news', for: { template: 'new-comment' }, window: '60min', template: 'activity-digest' }],
}
const item = (recipient: string, index: number) => ({ recipient, template: 'new-comment', data: { index } })

/** Creates a data directory with thirty orphans, as earlier versions left them, and three items in open digests. */
async function fileWithOrphans(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-orphans-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'sluice.db')
  const harness = await createHarness({ policy, file })
  const ids: string[] = []
  for (let index = 0; index < 30; index += 1) ids.push((await harness.post(item('ada', index))).id)
  for (let index = 0; index < 3; index += 1) ids.push((await harness.post(item('bob', index))).id)
  await harness.stop()
  const db = new DatabaseSync(file)
  db.exec("DELETE FROM digests WHERE recipient = 'ada'")
  db.close()
  return { file, ids, at: harness.start }
}

test('orphans that an earlier version left behind are adopted after a start, and end', async (t) => {
  const { file, ids, at } = await fileWithOrphans(t)
  const harness = await createHarness({ policy, file, start: at + day })
  await harness.runFor(second)
  const [first] = await Promise.all(ids.slice(0, 1).map((id) => harness.notification(id)))
  assert.equal(first?.timeline.at(-1)?.status, 'digesting')
  assert.equal(first?.timeline.length, 3)
  await harness.runFor(hour + minute)
  for (const id of ids) assert.equal((await harness.notification(id)).status, 'merged', id)
  assert.deepEqual(
    harness
      .sent()
      .map(({ recipient, message }) => [recipient, (message.data as { totalCount: number }).totalCount]),
    [
      ['bob', 3],
      ['ada', 30],
    ],
  )
  await harness.check()
  await harness.stop()
})

test('an orphan that cannot be adopted is counted, reported and retried, by the process with the role', async () => {
  const clock = createVirtualClock(0)
  const errors: string[] = []
  let orphans = [1, 2, 3].map(() => someNotification({ status: 'digesting', digestId: 'gone' }))
  const bad = orphans[1]
  let broken = true
  let isHolder = false
  const watch = createOrphans({
    store: { orphans: async () => ({ items: orphans, nextCursor: null }) },
    gate: {
      async adopt(found) {
        if (broken && found === bad) throw new Error('no')
        orphans = orphans.filter((each) => each !== found)
        return true
      },
    },
    members: { holds: () => isHolder },
    clock,
    onError: (what) => errors.push(what),
  })
  await watch.start()
  assert.deepEqual([watch.count(), orphans.length], [0, 3], 'another process scans')
  isHolder = true
  await clock.runUntil(10 * minute)
  assert.equal(watch.count(), 1)
  assert.ok(errors.some((what) => what.includes(orphans[0]!.id)))
  broken = false
  await clock.runUntil(20 * minute)
  assert.equal(watch.count(), 0)
  assert.deepEqual(orphans, [])
  await watch.stop()
  assert.equal(clock.next(), undefined)
})
