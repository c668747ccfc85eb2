/** The state that is shown of a notification, and the last event of its timeline, which has the same state. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { shown } from '../../src/http/answer.ts'
import type { Status } from '../../src/model.ts'
import type { Ledger } from '../../src/stages.ts'

const queued = someNotification({ status: 'queued', timeline: [{ at: epoch, status: 'queued' }] })
const nowhere: Pick<Ledger, 'live'> = { live: () => undefined }

const liveAt = (status: Status, ...events: readonly Status[]): Pick<Ledger, 'live'> => ({
  live: () => ({
    notification: queued,
    status,
    events: events.map((each, index) => ({ at: epoch + 1 + index, status: each })),
  }),
})

test('a notification that another process is sending has the event of that in its timeline', () => {
  const { status, timeline } = shown({ ...queued, status: 'sending', begunAt: epoch + 5 }, nowhere)
  assert.equal(status, 'sending')
  assert.deepEqual(timeline, [...queued.timeline, { at: epoch + 5, status: 'sending' }])
})

test('a notification is sending from the event of that on, and queued while its limits are asked', () => {
  const asked = shown(queued, liveAt('sending'))
  assert.deepEqual([asked.status, asked.timeline.at(-1)?.status], ['queued', 'queued'])
  const scheduled = shown({ ...queued, status: 'scheduled' }, liveAt('sending', 'queued'))
  assert.deepEqual([scheduled.status, scheduled.timeline.at(-1)?.status], ['queued', 'queued'])
  const sent = shown(queued, liveAt('sending', 'sending'))
  assert.deepEqual([sent.status, sent.timeline.at(-1)?.status], ['sending', 'sending'])
})
