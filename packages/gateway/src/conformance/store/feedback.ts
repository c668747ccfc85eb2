/** Feedback on record: each event once, read by notification and by category, and the index of what was sent. */
import assert from 'node:assert/strict'
import type { FeedbackEvent, FeedbackPage, ReportedNotification } from '../../ports/feedback.ts'
import { epoch, settled, someNotification } from './sample.ts'
import { must, type StoreCapabilities, type Test } from './suite.ts'

const dayMs = 86_400_000

const someEvent = (patch: Partial<FeedbackEvent> = {}): FeedbackEvent => ({
  tenant: 'acme',
  notificationId: 'n1',
  key: 'k1',
  type: 'complaint',
  channel: 'email',
  category: 'marketing',
  at: epoch,
  keptAt: epoch + 5,
  ...patch,
})

export function feedback(test: Test, capabilities: StoreCapabilities): void {
  test('keeps an event once, however often and by however many calls it is reported', async (store) => {
    await must(store, { accept: [someNotification({ id: 'n1' })] })
    const first = someEvent({ permanent: true, detail: '550 “no such user” – 👋', account: 'main' })
    const other = someEvent({ key: 'k2', type: 'open', at: epoch - 1 })
    assert.deepEqual(await store.feedback.keep([first, other, first]), [true, true, false])
    assert.deepEqual(await store.feedback.keep([{ ...first, at: epoch + 9 }]), [false])
    const twice = await Promise.all([
      store.feedback.keep([someEvent({ key: 'k3', at: epoch + 1 })]),
      store.feedback.keep([someEvent({ key: 'k3', at: epoch + 1 })]),
    ])
    assert.deepEqual(twice.flat().sort(), [false, true])
    const elsewhere = someEvent({ tenant: 'other' })
    assert.deepEqual(await store.feedback.keep([elsewhere]), [true], 'another tenant’s is another event')
    const third = someEvent({ key: 'k3', at: epoch + 1 })
    assert.deepEqual(await store.feedback.of('acme', ['n1', 'n2']), [other, first, third])
    assert.deepEqual(await store.feedback.of('other', ['n1']), [elsewhere])
    assert.deepEqual(await store.feedback.of('third', ['n1']), [])
    assert.deepEqual(await store.feedback.keep([]), [])
    const names = [elsewhere, { tenant: 'acme', notificationId: 'n2' }, first]
    const keys = await store.feedback.keysOf(names)
    assert.deepEqual(
      keys.map((each) => [...each].sort()),
      [['k1'], [], ['k1', 'k2', 'k3']],
    )
  })

  test('lists events of a tenant, category and type in the order of their instants, by pages', async (store) => {
    const instants = [5, 3, 3, 9, 1]
    const events = instants.map((at, n) => someEvent({ notificationId: `n${n}`, at: epoch + at }))
    await store.feedback.keep([
      ...events,
      someEvent({ notificationId: 'n9', type: 'open' }),
      someEvent({ notificationId: 'n8', category: 'product', at: epoch + 2 }),
      someEvent({ tenant: 'other', at: epoch + 4 }),
    ])
    const of = { tenant: 'acme', category: 'marketing', type: 'complaint' } as const
    async function all(read: (cursor: string | undefined) => Promise<FeedbackPage>) {
      const found: (readonly [string, number])[] = []
      for (let cursor: string | undefined, more = true; more; ) {
        const page = await read(cursor)
        found.push(...page.items.map(({ tenant, at }) => [tenant, at - epoch] as const))
        more = page.nextCursor !== null
        cursor = page.nextCursor ?? undefined
      }
      return found
    }
    const range = (cursor: string | undefined) => ({
      from: epoch + 3,
      to: epoch + 9,
      limit: 2,
      ...(cursor === undefined ? {} : { cursor }),
    })
    const listed = await all((cursor) => store.feedback.list({ ...of, ...range(cursor) }))
    assert.deepEqual(
      listed.map(([, at]) => at),
      [3, 3, 5],
    )
    const complaints = await all((cursor) => store.feedback.complaints({ ...range(cursor), from: epoch }))
    assert.deepEqual(complaints, [
      ['acme', 1],
      ['acme', 2],
      ['acme', 3],
      ['acme', 3],
      ['other', 4],
      ['acme', 5],
    ])
  })

  test('finds the notification that was sent last under an id or an address', async (store) => {
    const record = { key: 'a', tenant: 'acme', notificationId: 'n1', sentAt: epoch }
    const later = { ...record, notificationId: 'n2', sentAt: epoch + 3 * dayMs }
    const other = { key: 'b', tenant: 'other', notificationId: 'n3', sentAt: epoch + dayMs }
    await store.feedback.keepSent([record, other])
    await store.feedback.keepSent([later])
    await store.feedback.keepSent([])
    assert.deepEqual(await store.feedback.findSent(['b', 'x', 'a'], epoch), [other, undefined, later])
    assert.deepEqual(await store.feedback.findSent(['a', 'b'], epoch + 2 * dayMs), [later, undefined])
  })

  test('finds notifications by their ids alone, with what a report needs of them', async (store) => {
    const [one, two, ended] = [
      someNotification(),
      someNotification({
        tenant: 'other',
        channel: 'sms',
        category: 'billing',
        to: { id: 'bob', phone: '+451' },
      }),
      someNotification(),
    ]
    await must(store, { accept: [one, two, ended] })
    const after = settled(ended, epoch + 5)
    await must(store, { moves: [after] })
    const found = await store.feedback.reported([two.id, 'nobody', 'a\0b', one.id, ended.id, two.id])
    const part = ({ tenant, id, channel, category, to, timeline }: ReportedNotification) => ({
      tenant,
      id,
      channel,
      category,
      to,
      timeline,
    }) // A store may answer more.
    assert.deepEqual(
      found.map((each) => each && part(each)),
      [part(two), undefined, undefined, part(one), part(after.after), part(two)],
    )
    assert.deepEqual(await store.feedback.reported([]), [])
  })

  test('keeps reports that wait, each once and within both bounds, until they are ended', async (store) => {
    const bounds = { ofOne: 3, ofAll: 5 }
    const waits = (id: string, reporter = 'tenant acme') => ({
      id,
      reporter,
      until: epoch,
      body: `{"n":"${id}"}`,
    })
    const { feedback: record } = store
    assert.deepEqual(await record.keepWaiting([], bounds), [])
    assert.deepEqual(await record.keepWaiting([waits('c'), waits('a')], bounds), [true, true])
    assert.deepEqual(
      await record.keepWaiting([{ ...waits('a'), until: epoch + 9 }, waits('b')], { ofOne: 4, ofAll: 5 }),
      [true, true],
      'one that waits already stays as it is',
    )
    assert.deepEqual(await record.keepWaiting([waits('d')], bounds), [false], 'the bound of its reporter')
    const others = ['e', 'f', 'g'].map((id) => waits(id, 'account email main'))
    assert.deepEqual(await record.keepWaiting(others, bounds), [true, true, false], 'the bound of all')
    assert.deepEqual(await record.waiting(2), [waits('a'), waits('b')])
    await record.endWaiting(['a', 'x'])
    assert.deepEqual(await record.waiting(9, 'b'), [waits('c'), ...others.slice(0, 2)])
    assert.deepEqual(await record.keepWaiting([waits('d')], bounds), [true])
  })

  test('removes old feedback and old sent records', async (store) => {
    const young = someEvent({ key: 'k2', keptAt: epoch + 10 })
    await store.feedback.keep([someEvent({ keptAt: epoch + 9 }), young])
    await store.feedback.keepSent([
      { key: 'a', tenant: 'acme', notificationId: 'n1', sentAt: epoch },
      { key: 'b', tenant: 'acme', notificationId: 'n1', sentAt: epoch + 2 * dayMs },
    ])
    assert.equal(await store.feedback.prune({ events: epoch + 10, sent: epoch + dayMs }), 2)
    assert.deepEqual(await store.feedback.of('acme', ['n1']), [young])
    const found = await store.feedback.findSent(['a', 'b'], 0)
    assert.deepEqual(
      found.map((each) => each?.sentAt),
      [undefined, epoch + 2 * dayMs],
    )
  })

  test('removes the provider’s words with the recipient, and keeps the event for the counts', async (store) => {
    const sent = someNotification({ to: { id: 'eve', email: 'eve@example.com' } })
    const [other] = [someNotification({ to: { id: 'bob' } })]
    await must(store, { accept: [sent, other] })
    await must(store, { moves: [settled(sent, epoch + 5)] })
    const detail = '550 no such user eve@example.com'
    const bounce = someEvent({ notificationId: sent.id, type: 'bounce', permanent: true, account: 'main' })
    const untouched = someEvent({ notificationId: other.id, detail })
    await store.feedback.keep([{ ...bounce, detail }, untouched])
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    assert.deepEqual(await store.feedback.of('acme', [sent.id]), [bounce])
    assert.deepEqual(await store.feedback.of('acme', [other.id]), [untouched])
  })

  test('keeps what is reported of an erased recipient without the provider’s words, however late it comes', async (store) => {
    const sent = someNotification({ to: { id: 'eve', email: 'eve@example.com' } })
    const [other] = [someNotification({ to: { id: 'bob' } })]
    await must(store, { accept: [sent, other] })
    await must(store, { moves: [settled(sent, epoch + 5)] })
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    const detail = '550 no such user eve@example.com'
    const bounce = someEvent({ notificationId: sent.id, type: 'bounce', permanent: true, account: 'main' })
    const untouched = someEvent({ notificationId: other.id, detail })
    assert.deepEqual(await store.feedback.keep([{ ...bounce, detail }, untouched]), [true, true])
    assert.deepEqual(await store.feedback.of('acme', [sent.id]), [bounce])
    assert.deepEqual(await store.feedback.of('acme', [other.id]), [untouched])
  })

  test('removes the provider’s words with the notification: no erasure finds them behind it', async (store) => {
    const sent = someNotification({ to: { id: 'eve', email: 'eve@example.com' } })
    const young = someNotification({ to: { id: 'eve' }, createdAt: epoch + dayMs })
    await must(store, { accept: [sent, young] })
    await must(store, { moves: [settled(sent, epoch + 5), settled(young, epoch + dayMs)] })
    const bounce = someEvent({ notificationId: sent.id, type: 'bounce', permanent: true, account: 'main' })
    const detail = '550 no such user eve@example.com'
    const untouched = someEvent({ notificationId: young.id, detail })
    await store.feedback.keep([{ ...bounce, detail }, untouched])
    await store.prune({ answers: 0, notifications: epoch + 1_000 })
    assert.equal(await store.notification('acme', sent.id), undefined)
    const late = { ...bounce, key: 'k2' }
    assert.deepEqual(await store.feedback.keep([{ ...late, detail }]), [true])
    assert.deepEqual(await store.feedback.of('acme', [sent.id]), [bounce, late])
    assert.deepEqual(await store.feedback.of('acme', [young.id]), [untouched])
  })

  if (capabilities.durable)
    test('keeps feedback through a restart', async (store, context) => {
      const sent = { key: 'a', tenant: 'acme', notificationId: 'n1', sentAt: epoch }
      await store.feedback.keep([someEvent()])
      await store.feedback.keepSent([sent])
      const waits = { id: 'w', reporter: 'tenant acme', until: epoch, body: '{}' }
      await store.feedback.keepWaiting([waits], { ofOne: 1, ofAll: 1 })
      const again = await context.reopen()
      assert.deepEqual(await again.feedback.keep([someEvent()]), [false])
      assert.deepEqual(await again.feedback.of('acme', ['n1']), [someEvent()])
      assert.deepEqual(await again.feedback.findSent(['a'], epoch), [sent])
      assert.deepEqual(await again.feedback.waiting(9), [waits])
    })
}
