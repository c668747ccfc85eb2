/** A link to unsubscribe behind an erasure: the opt-out holds, and the id of the recipient does not come back. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createRecipientEditor } from '../../../src/http/recipient-editor.ts'
import { unsubscribeRoutes } from '../../../src/http/routes/unsubscribe.ts'
import { createUnsubscribeLinks } from '../../../src/http/unsubscribe.ts'
import type { Notification } from '../../../src/model.ts'
import { pseudonymPrefix, type Store } from '../../../src/ports.ts'
import { createHarness, hour, second } from '../../harness.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-unsubscribed-'))
after(() => rmSync(folder, { recursive: true }))

const tenant = 'default'
const optOuts = [{ category: 'marketing', channel: 'email' }]
const marketing = {
  to: { id: 'eve', email: 'eve@example.com' },
  category: 'marketing',
  channel: 'email',
  content: { subject: 'Hello', text: 'Hello' },
} as const
let files = 0

/** A gateway over a file; `meanwhile` runs once, before the recipient is written. */
async function open(meanwhile = async () => {}) {
  files += 1
  let before = meanwhile
  const wrap = (store: Store): Store =>
    new Proxy(store, {
      get(target, property) {
        const value = Reflect.get(target, property, target) as unknown
        if (property !== 'commit') return value
        return async (change: Parameters<Store['commit']>[0]) => {
          const run = before
          if (change.recipients !== undefined) before = async () => {}
          if (change.recipients !== undefined) await run()
          return store.commit(change)
        }
      },
    })
  const harness = await createHarness({ file: join(folder, `${files}.db`), wrap })
  const { gateway } = harness
  const { gate, store, feedback } = gateway
  const links = createUnsubscribeLinks({ publicUrl: 'https://notify.example.com', key: 'a key of the tests' })
  const routes = unsubscribeRoutes({
    ...{ links, store, feedback, clock: harness.clock, limits: { take: () => {} } },
    editor: createRecipientEditor({ gate, store }),
  })
  const { handle } = routes.find(({ method }) => method === 'POST')!
  const reply = { code: () => reply, headers: () => reply, send: () => reply }
  return {
    ...harness,
    store,
    erase: () => harness.done(gateway.erase(tenant, 'eve')),
    known: () => store.recipient(tenant, 'eve'),
    save: (optedOut: typeof optOuts) =>
      harness.done(
        gate.saveRecipient({ tenant, id: 'eve', email: 'eve@example.com', optOuts: optedOut as [] }),
      ),
    async click(mail: Notification, ...without: readonly 'id'[]) {
      const named = without.includes('id') ? { ...mail, id: undefined } : mail
      const token = new URL(links.urlFor!({ ...named, to: marketing.to } as Notification)).pathname
        .split('/')
        .at(-1)
      await harness.done(Promise.resolve(handle({ params: { token } } as never, reply as never)))
    },
  }
}

test('a link of an erased recipient opts out what is left under the keyed hash', async () => {
  const { post, runFor, erase, click, known, store } = await open()
  const sent = await post(marketing)
  await runFor(second)
  await erase()
  for (let clicks = 0; clicks < 2; clicks += 1) {
    await click(sent)
    const found = await known()
    assert.deepEqual(found?.optOuts, optOuts)
    assert.ok(found?.erased?.startsWith(pseudonymPrefix), JSON.stringify(found))
  }
  const events = await store.feedback.of(tenant, [sent.id])
  assert.deepEqual(
    events.map(({ type }) => type),
    ['unsubscribe'],
  )
  assert.equal((await post(marketing)).decision.reason, 'opted_out')
})

test('it suppresses at once what waits for one who came back', async () => {
  const { post, runFor, erase, click, known, notification, clock } = await open()
  const sent = await post(marketing)
  await runFor(second)
  await erase()
  const waits = await post({ ...marketing, sendAt: clock.now() + hour, content: { text: 'Later' } })
  assert.equal(waits.status, 'scheduled')
  await click(sent)
  assert.equal((await notification(waits.id)).status, 'suppressed')
  assert.ok((await known())?.erased !== undefined)
})

test('it opts out one who came back and was saved', async () => {
  const { post, runFor, erase, click, known, save } = await open()
  const sent = await post(marketing)
  await runFor(second)
  await erase()
  await save([])
  await click(sent)
  assert.deepEqual(await known(), { tenant, id: 'eve', email: 'eve@example.com', optOuts })
})

test('it brings no id back where the mail is gone and opt-outs are left', async () => {
  const { post, runFor, erase, click, known, save } = await open()
  const sent = await post({ ...marketing, category: 'product' })
  await runFor(second)
  await save(optOuts)
  await erase()
  await click(sent, 'id')
  const found = await known()
  assert.deepEqual(found?.optOuts, [...optOuts, { category: 'product', channel: 'email' }])
  assert.ok(found?.erased?.startsWith(pseudonymPrefix))
})

test('it holds where another process erases the recipient meanwhile', async () => {
  const { post, runFor, click, known, store } = await open(async () => {
    await store.beginErasure(tenant, 'eve')
    assert.deepEqual(await store.erase(tenant, 'eve'), { done: true })
  })
  const sent = await post(marketing)
  await runFor(second)
  await click(sent)
  const found = await known()
  assert.deepEqual(found?.optOuts, optOuts)
  assert.ok(found?.erased?.startsWith(pseudonymPrefix), JSON.stringify(found))
})
