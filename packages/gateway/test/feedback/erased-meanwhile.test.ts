/**
 * A report of a notification whose recipient another gateway erases meanwhile: the erasure comes, or begins, exactly before
 * each call of the report to the record. Nothing of the person is written behind it, and the complaint holds all the same.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { settled, someNotification } from '../../src/conformance/store/sample.ts'
import { must } from '../../src/conformance/store/suite.ts'
import { SluiceError } from '../../src/errors.ts'
import { createCorrelation } from '../../src/feedback/correlation.ts'
import { createFeedback } from '../../src/feedback/feedback.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import type { Recipient } from '../../src/model.ts'
import type { ReportedOf } from '../../src/ports/recipients.ts'
import type { Store } from '../../src/ports.ts'
import { createMemoryRecord, createMemoryStore } from '../../src/store/memory/memory.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { dropSchemas, joinAt, schemaUrl } from '../store/postgres/database.ts'

const clock = createSystemClock()
const tenant = 'acme'
const folder = mkdtempSync(join(tmpdir(), 'sluice-erased-meanwhile-'))
after(() => rmSync(folder, { recursive: true, force: true }))
after(dropSchemas)

/** Reports a complaint and a permanent bounce; `meanwhile` is done before a call to the record. Returns the number of calls. */
async function report(store: Store, notificationId: string, call: number, meanwhile: () => Promise<void>) {
  let calls = 0
  const met =
    <Args extends unknown[], Answer>(ask: (...args: Args) => Promise<Answer>) =>
    async (...args: Args): Promise<Answer> => {
      calls += 1
      if (calls === call) await meanwhile()
      return ask(...args)
    }
  const recorded = store.feedback
  const record = {
    reported: met((ids: readonly string[]) => recorded.reported(ids)),
    keysOf: met((names: Parameters<typeof recorded.keysOf>[0]) => recorded.keysOf(names)),
    keep: met((events: Parameters<typeof recorded.keep>[0]) => recorded.keep(events)),
    findSent: async () => [],
    keepWaiting: async () => assert.fail('nothing waits'),
    waiting: async () => [],
    endWaiting: async () => {},
  }
  const commit = met((change: Parameters<Store['commit']>[0]) => store.commit(change))
  async function saveRecipient(recipient: Recipient, reportedOf: readonly ReportedOf[] = []) {
    const result = await commit({ recipients: [recipient], reportedOf })
    if (!result.applied && result.conflicts.some(({ kind }) => kind === 'erased'))
      throw new SluiceError('NOT_FOUND', 'This person was erased.')
    return result.applied
  }
  const recipients = met((keys: Parameters<Store['recipients']>[0]) => store.recipients(keys))
  const editor = createRecipientEditor({
    gate: { saveRecipient },
    store: { recipients, isVersioned: store.isVersioned },
  })
  const feedback = createFeedback({
    record,
    correlate: createCorrelation({ record, keys: createSentKeys(() => Buffer.from('key')), clock }),
    edit: editor.edit,
    clock,
    tries: () => false,
    isShared: false,
    onUnknown: () => {},
    onError: (what, error) => assert.fail(`${what}: ${String(error)}`),
  })
  const said = { notificationId, at: clock.now(), detail: '550 no such user eve@example.com' }
  const reports = [
    { ...said, type: 'complaint' } as const,
    { ...said, type: 'bounce', permanent: true } as const,
  ]
  await feedback.report(reports, { tenant })
  await feedback.stop()
  if (calls < call) await meanwhile()
  return calls
}

async function delivered(store: Store, id: string): Promise<string> {
  const sent = someNotification({ tenant, category: 'marketing', to: { id, email: 'eve@example.com' } })
  await must(store, { accept: [sent] })
  await must(store, { moves: [settled(sent, sent.createdAt + 5)] })
  return sent.id
}

/** Erases by `other`, whole or begun and completed behind the report, before each call of a report to `store`. */
async function eraseBetween(store: Store, other: Store): Promise<void> {
  for (const isWhole of [true, false]) {
    let calls = 1
    for (let call = 1; call <= calls + 1; call += 1) {
      const id = `eve-${isWhole}-${call}`
      const sent = await delivered(store, id)
      const erase = async () => assert.deepEqual(await other.erase(tenant, id), { done: true })
      const found = await report(store, sent, call, async () => {
        await other.beginErasure(tenant, id)
        if (isWhole) await erase()
      })
      calls = Math.max(calls, found)
      if (!isWhole) await erase()
      const at = `${isWhole ? 'erased' : 'begun'} before call ${call} of ${found}`
      const { erased, invalid, optOuts } = (await other.recipient(tenant, id)) ?? {}
      assert.equal(invalid, undefined, at)
      assert.deepEqual(
        [erased !== undefined, optOuts],
        [true, [{ category: 'marketing', channel: 'email' }]],
        at,
      )
      const kept = await other.feedback.of(tenant, [sent])
      const words = kept.map(({ type, detail }) => [type, detail])
      assert.deepEqual(
        words.sort(),
        [
          ['bounce', undefined],
          ['complaint', undefined],
        ],
        at,
      )
    }
  }
}

test('nothing of a person is written in memory behind an erasure', async () => {
  const store = createMemoryStore()
  await eraseBetween(store, store)
})

test('nothing of a person is written in the record of several processes behind an erasure', async () => {
  const record = createMemoryRecord(250)
  await eraseBetween(record.open('a'), record.open('b'))
})

test('nothing of a person is written in a file behind an erasure', async (t) => {
  const store = createSqliteStore({ path: join(folder, 'sluice.db'), clock })
  t.after(() => store.close())
  await eraseBetween(store, store)
})

test(
  'nothing of a person is written in PostgreSQL behind an erasure of another gateway',
  needs('postgres'),
  async (t) => {
    const url = schemaUrl('erased meanwhile')
    const [a, b] = await Promise.all([joinAt(url, clock), joinAt(url, clock)])
    t.after(async () => {
      for (const { store, members } of [a, b]) {
        await store.close()
        await members.close()
      }
    })
    await eraseBetween(a.store, b.store)
  },
)
