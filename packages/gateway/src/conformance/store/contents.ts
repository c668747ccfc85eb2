/** Shared contents in a store: kept once, for as long as a notification refers to them, and counted. */
import assert from 'node:assert/strict'
import type { Notification, SharedContent } from '../../model.ts'
import { advance } from '../../model.ts'
import { epoch, settled, someJob, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { conflict, must } from './suite.ts'

const content: SharedContent = {
  id: '01CONTENT00000000000000001',
  tenant: 'acme',
  bytes: 77,
  content: { subject: '“é” 👋', text: 'A line\nand another' },
  data: { deep: [1, { two: null }] },
}
const ref = { id: content.id, bytes: content.bytes }
const waiting = (count: number) => [{ ...ref, tenant: 'acme', waiting: count }]

function referring(patch: Partial<Notification> = {}): Notification {
  const { content: _, ...notification } = someNotification({ shared: ref, ...patch })
  return notification
}

export function contents(test: Test, capabilities: StoreCapabilities): void {
  test('returns content unchanged, to its tenant only, and notifications that refer to it without it', async (store) => {
    const accept = [referring(), referring({ data: { own: true }, bytes: 12 })]
    await must(store, { contents: [content], accept })
    assert.deepEqual(await store.content('acme', content.id), content)
    assert.equal(await store.content('other', content.id), undefined)
    assert.equal(await store.content('acme', 'unknown'), undefined)
    for (const notification of accept)
      assert.deepEqual(await store.notification('acme', notification.id), notification)
    assert.deepEqual(await store.claimDue(epoch, 10), accept)
  })

  test('counts the unfinished notifications that refer to a content, and the bytes of inline content', async (store) => {
    const own = someNotification({ bytes: 50 })
    const accept = [referring(), referring({ bytes: 12, data: { a: 1 } }), own]
    await must(store, { contents: [content], accept })
    assert.deepEqual(await store.waitingContents(), waiting(2))
    const bytes = async () => (await store.tallies()).map(({ status, bytes }) => [status, bytes])
    assert.deepEqual(await bytes(), [['queued', 62]])
    await must(store, { moves: [settled(accept[0]!, epoch), settled(own, epoch)] })
    assert.deepEqual(await store.waitingContents(), waiting(1))
    const dead = advance(accept[1]!, [{ at: epoch, status: 'dead', reason: 'shed' }])
    await must(store, { moves: [dead] })
    assert.deepEqual(await store.waitingContents(), waiting(1))
    assert.deepEqual((await bytes()).sort(), [
      ['dead', 12],
      ['delivered', 0],
    ])
    await must(store, { moves: [advance(dead.after, [{ at: epoch, status: 'cancelled' }])] })
    assert.deepEqual(await store.waitingContents(), [])
    assert.deepEqual(
      await store.content('acme', content.id),
      content,
      'it is on record with those that have ended',
    )
  })

  test('keeps content until the last notification that refers to it is pruned', async (store) => {
    const old = referring()
    const young = referring({ createdAt: epoch + 1_000 })
    await must(store, { contents: [content], accept: [old, young] })
    await must(store, { moves: [settled(old, epoch), settled(young, epoch)] })
    await store.prune({ answers: 0, notifications: epoch + 500 })
    assert.deepEqual(await store.content('acme', content.id), content)
    await store.prune({ answers: 0, notifications: epoch + 5_000 })
    assert.equal(await store.content('acme', content.id), undefined)
  })

  test('writes no content with a refused change, and no content twice', async (store) => {
    const taken = someNotification()
    await must(store, { accept: [taken] })
    const refused = { contents: [content], accept: [referring(), taken] }
    assert.deepEqual(await store.commit(refused), conflict('notification', taken.id))
    assert.equal(await store.content('acme', content.id), undefined)
    await must(store, { contents: [content], accept: [referring()] })
    assert.deepEqual(
      await store.commit({ contents: [content], accept: [referring()] }),
      conflict('content', content.id),
    )
    assert.deepEqual(await store.waitingContents(), waiting(1))
  })

  test('keeps the content of a job as long as it runs, also before it accepts a notification', async (store, context) => {
    const job = someJob({ shared: ref, bytes: 300 })
    const work = {
      message: { channel: 'email', category: 'product', priority: 'normal' },
      recipients: [{ id: 'ada' }, { id: 'bob' }, { id: 'cleo' }, { id: 'dan' }],
    } as const
    await must(store, { contents: [content], jobs: [{ kind: 'open', job, work }] })
    const again = capabilities.durable ? await context.reopen() : store
    assert.deepEqual(await again.runningJobs(), [job])
    assert.deepEqual(await again.waitingContents(), waiting(1))
    const after = { ...job, taken: job.total, status: 'done' as const }
    const member = referring({ job: job.id })
    await must(again, { accept: [member], jobs: [{ kind: 'move', before: job, after }] })
    assert.deepEqual(await again.job('acme', job.id), after)
    assert.deepEqual(await again.waitingContents(), waiting(1))
    await must(again, { moves: [settled(member, epoch)] })
    assert.deepEqual(await again.waitingContents(), [])
  })

  test('drops the content of a job that ends without an accepted notification', async (store) => {
    const job = someJob({ shared: ref, bytes: 1 })
    const message = { channel: 'email', category: 'product', priority: 'normal' } as const
    await must(store, {
      contents: [content],
      jobs: [{ kind: 'open', job, work: { message, recipients: [{ id: 'ada' }] } }],
    })
    await must(store, { jobs: [{ kind: 'move', before: job, after: { ...job, status: 'cancelled' } }] })
    assert.equal(await store.content('acme', content.id), undefined)
  })

  test('keeps the content of a batch for the others when one of its recipients is erased', async (store) => {
    const [eve, bob] = ['eve', 'bob'].map((id) => referring({ to: { id, email: `${id}@example.com` } }))
    await must(store, { contents: [content], accept: [eve!, bob!] })
    await must(store, { moves: [settled(eve!, epoch)] })
    const erase = async (id: string): Promise<void> => {
      await store.beginErasure('acme', id)
      assert.deepEqual(await store.erase('acme', id), { done: true })
    }
    await erase('eve')
    assert.equal((await store.notification('acme', eve!.id))?.shared, undefined)
    assert.deepEqual(await store.content('acme', content.id), content)
    assert.deepEqual(await store.waitingContents(), waiting(1))
    await must(store, { moves: [settled(bob!, epoch)] })
    await erase('bob')
    assert.equal(await store.content('acme', content.id), undefined)
  })
}
