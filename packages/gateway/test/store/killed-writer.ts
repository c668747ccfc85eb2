/**
 * A process that writes to a store until it is killed, and notes what was resolved: one line per notification,
 * `id status`. Started by killed.long.test.ts: `node killed-writer.ts <file> <run> <notes> small|large`, where `large` are
 * notifications with content of a megabyte. It says `on` after the first.
 */
import { openSync, writeSync } from 'node:fs'
import { settled, someNotification } from '../../src/conformance/store/sample.ts'
import type { Notification } from '../../src/model.ts'
import type { Clock } from '../../src/ports.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'

const [path = '', run = '0', notes = '/dev/null', what = 'small'] = process.argv.slice(2)
const notebook = openSync(notes, 'w')
const clock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  at: () => () => {},
  soon: (callback) => void setImmediate(callback),
}
const store = createSqliteStore({ path, clock })
// Synchronous, so that a line is with the system before the next commit can begin: it outlives this process.
const say = (notification: Notification): void => {
  writeSync(notebook, `${notification.id} ${notification.status}\n`)
}

let made = 0
async function one(): Promise<void> {
  made += 1
  const notification = someNotification({
    id: `run-${run}-${made}`,
    createdAt: Date.now(),
    dueAt: Date.now(),
  })
  await store.commit({ accept: [notification] })
  say(notification)
  if (made % 3 === 0) return
  const move = settled(notification, Date.now())
  await store.commit({ moves: [move] })
  say(move.after)
}

const bytes = 2 ** 20
async function oneLarge(): Promise<void> {
  made += 1
  const id = `run-${run}-${made}`
  const { content: _, ...notification } = someNotification({ id, shared: { id, bytes } })
  const content = { text: String(made % 10).repeat(bytes) }
  await store.commit({ contents: [{ id, tenant: 'acme', bytes, content }], accept: [notification] })
  say(notification)
}

await (what === 'large' ? oneLarge() : one())
console.log('on')
if (what === 'large') for (;;) await Promise.all([oneLarge(), oneLarge()])
for (;;) await Promise.all(Array.from({ length: 1 + (made % 40) }, one))
