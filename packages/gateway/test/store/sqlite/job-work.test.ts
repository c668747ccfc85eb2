/** A job's work of megabytes is read beside the writer, and its data only when somebody needs it. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { someJob } from '../../../src/conformance/store/sample.ts'
import { dataOf, encodingOf } from '../../../src/content.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'

/** The size that the request had; a job of an earlier version has none, and its work is one text. */
for (const bytes of [2 ** 23, undefined])
  test(`a job's work of megabytes is read back unchanged, without a long parse on the event loop (${bytes})`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-work-'))
    const store = createSqliteStore({ path: join(folder, 'sluice.db'), clock: createSystemClock() })
    t.after(async () => {
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    })
    const data = { text: '€“👋'.repeat(1_000), deep: [1, { two: null }] }
    const recipients = Array.from({ length: 480 }, (_, n) =>
      n % 7 === 0 ? { id: `user-${n}` } : { id: `user-${n}`, data },
    )
    const message = { channel: 'email', category: 'product', priority: 'normal' } as const
    const job = someJob({ total: recipients.length, ...(bytes === undefined ? {} : { bytes }) })
    const opened = await store.commit({ jobs: [{ kind: 'open', job, work: { message, recipients } }] })
    assert.equal(opened.applied, true)

    const { parse } = JSON
    let longest = 0
    t.after(() => Object.assign(JSON, { parse }))
    Object.assign(JSON, {
      parse(text: string, ...more: []) {
        longest = Math.max(longest, text.length)
        return parse(text, ...more)
      },
    })
    const work = (await store.jobWork(job))!
    assert.ok(encodingOf(work.recipients[1]!.data!)?.isStandIn)
    const read = work.recipients.map(({ id, data }) =>
      data === undefined ? { id } : { id, data: dataOf(data) },
    )
    assert.deepEqual({ ...work, recipients: read }, { message, recipients })
    assert.ok(longest > 0 && longest < 2 ** 16, `${longest} characters at once`)
  })
