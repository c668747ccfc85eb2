/** Erasure of a recipient in a store: the rows that it removes, and the facts that stay for limits and opt-outs. */
import assert from 'node:assert/strict'
import { advance, type Job, type Notification } from '../../model.ts'
import { pseudonymPrefix, type StoredAnswer } from '../../ports.ts'
import { epoch, settled, someDigest, someJob, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { agree, ids, must } from './suite.ts'

const eve = { id: 'eve', email: 'eve@example.com', timeZone: 'Europe/Rome' }
const content = { subject: 'For Eve', text: 'the code is 1234' }

export function erasures(test: Test, capabilities: StoreCapabilities): void {
  test('erases a recipient: rows stay for the counts, without recipient and content', async (store) => {
    const sent = someNotification({
      to: eve,
      content,
      data: { code: '1234' },
      actor: 'author-7',
      fingerprint: 'f1',
    })
    const failed = someNotification({ to: eve, content, createdAt: epoch + 1 })
    const other = someNotification({ to: { id: 'bob', email: 'bob@example.com' }, content })
    const abroad = someNotification({ tenant: 'other', to: eve, content })
    await must(store, { accept: [sent, failed, other, abroad] })
    const refusal = { at: epoch, status: 'failed', detail: '550 no such user eve@example.com' } as const
    await must(store, {
      moves: [settled(sent, epoch + 5), advance(failed, [{ at: epoch, status: 'sending' }, refusal])],
    })
    await must(store, { recipients: [{ ...eve, tenant: 'acme', optOuts: [{ category: 'news' }] }] })
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erasures(), [{ tenant: 'acme', recipient: 'eve' }])
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    assert.deepEqual(await store.erasures(), [])

    assert.deepEqual((await store.list({ tenant: 'acme', recipient: 'eve', limit: 9 })).items, [])
    const found = (await store.notification('acme', sent.id))!
    assert.ok(found.to.id.startsWith(pseudonymPrefix))
    assert.deepEqual(
      [found.to, found.content, found.data, found.status, found.firedAt, found.category, found.actor],
      [{ id: found.to.id }, undefined, undefined, 'delivered', epoch + 5, sent.category, 'author-7'],
    )
    const all = JSON.stringify(await store.list({ tenant: 'acme', limit: 9 }))
    for (const text of ['eve', '1234', 'Europe/Rome', '550'])
      assert.equal(all.includes(`"${text}`), false, text)
    assert.equal(all.includes('eve@example.com'), false, 'nor in what a provider said')
    assert.deepEqual(await store.notification('acme', other.id), other)
    assert.deepEqual(await store.notification('other', abroad.id), abroad)
    await agree(store)
  })

  test('leaves no item behind that joins a digest of the recipient during the erasure', async (store) => {
    const digest = someDigest({ recipient: 'eve' })
    const item = (): Notification => someNotification({ to: eve, status: 'digesting', digestId: digest.id })
    const first = item()
    await must(store, { digests: [{ kind: 'open', digest }], accept: [first] })
    const heldAs = { module: 'app', to: eve, priority: 'normal', actors: ['bob'] } as const
    await must(store, { digests: [{ kind: 'postpone', digest: { ...digest, heldAs } }] })
    await must(store, { moves: [advance(first, [{ at: epoch, status: 'cancelled' }])] })
    await store.beginErasure('acme', 'eve')
    const late = item()
    const [erased, joined] = await Promise.all([
      store.erase('acme', 'eve'),
      store.commit({ digests: [{ kind: 'join', digest }], accept: [late] }),
    ])
    assert.deepEqual(erased, { done: true })
    assert.deepEqual((await store.orphans(null, 9)).items, [])
    const collected = (await store.digestItems(digest, null, 9)).items
    assert.deepEqual(ids(collected), joined.applied ? [late.id] : [])
    // The address as which it was held is gone.
    assert.deepEqual(await store.digest(digest.id), joined.applied ? digest : undefined)
  })

  test('erases a digest that was made of waiting items behind the beginning, and no open one stays', async (store) => {
    const [closing, empty] = [someDigest({ recipient: 'eve' }), someDigest({ recipient: 'eve', name: 'b' })]
    const item = someNotification({ to: eve, content, status: 'digesting', digestId: closing.id })
    const gone = someNotification({ to: eve, content, status: 'digesting', digestId: empty.id })
    for (const [digest, first] of [
      [closing, item],
      [empty, gone],
    ] as const)
      await must(store, { digests: [{ kind: 'open', digest }], accept: [first] })
    await must(store, { moves: [advance(gone, [{ at: epoch, status: 'cancelled' }])] })
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erase('acme', 'eve'), { done: false, open: [item.id] })
    const made = someNotification({ id: closing.id, to: eve, content, digestId: closing.id })
    await must(store, {
      accept: [made],
      moves: [advance(item, [{ at: epoch, status: 'merged' }])],
      digests: [{ kind: 'close', digest: closing, left: 0 }],
    })
    await must(store, { moves: [settled(made, epoch + 5)] })
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    const { to, content: told } = (await store.notification('acme', made.id))!
    assert.deepEqual([Object.keys(to), told], [['id'], undefined])
    assert.ok(to.id.startsWith(pseudonymPrefix))
    assert.deepEqual((await store.list({ tenant: 'acme', recipient: 'eve', limit: 9 })).items, [])
    assert.equal(await store.openDigest(empty), undefined, 'it would name the recipient until it closes')
    await agree(store)
  })

  test('leaves to who comes back what is accepted behind the end', async (store) => {
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    const back = someNotification({ to: eve, content })
    await must(store, { accept: [back] })
    if (store.isVersioned) assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    assert.deepEqual(await store.notification('acme', back.id), back)
  })

  test('erases what came before it, also where an earlier erasure of the recipient is still under way', async (store) => {
    const sent = someNotification({ to: eve, content })
    await must(store, { accept: [sent] })
    await must(store, { moves: [settled(sent, epoch + 5)] })
    await store.beginErasure('acme', 'eve')
    const earlier = store.erase('acme', 'eve')
    const back = someNotification({ to: eve, content, createdAt: epoch + 9, status: 'suppressed' })
    const accepting = must(store, { accept: [back] })
    await store.beginErasure('acme', 'eve')
    await accepting
    const later = await store.erase('acme', 'eve')
    assert.deepEqual([await earlier, later], [{ done: true }, { done: true }])
    assert.deepEqual((await store.list({ tenant: 'acme', recipient: 'eve', limit: 9 })).items, [])
    const { to, content: told } = (await store.notification('acme', back.id))!
    assert.deepEqual([Object.keys(to), told], [['id'], undefined])
    assert.deepEqual(await store.erasures(), [])
    await agree(store)
  })

  test('keeps limit usage and opt-outs of an erased recipient', async (store, context) => {
    const sent = someNotification({ to: eve, content })
    await must(store, { accept: [sent, someNotification({ to: { id: 'bob' } })] })
    await must(store, { moves: [settled(sent, epoch + 5)] })
    const optOuts = [{ category: 'news', channel: 'email' as const }]
    await must(store, { recipients: [{ ...eve, tenant: 'acme', optOuts, locale: 'it' }] })
    await store.beginErasure('acme', 'eve')
    await store.erase('acme', 'eve')

    const known = async (of: typeof store): Promise<void> => {
      assert.ok(of.mayHave('preferences', 'acme', 'eve') && of.mayHave('notifications', 'acme', 'eve'))
      const both = [
        { tenant: 'acme', recipient: 'nobody' },
        { tenant: 'acme', recipient: 'eve' },
      ]
      assert.deepEqual(await of.recipients(both), [undefined, await of.recipient('acme', 'eve')])
      const { left, erased: name, ...eveNow } = (await of.recipient('acme', 'eve'))!
      assert.deepEqual(eveNow, { tenant: 'acme', id: 'eve', optOuts })
      assert.ok(name?.startsWith(pseudonymPrefix))
      assert.equal(left !== undefined, of.isVersioned)
      const again = someNotification({ to: eve, createdAt: epoch + 9 })
      await must(of, { accept: [again] })
      const admissions = await of.admissions({ tenant: 'acme', recipient: 'eve', since: epoch - 9, limit: 9 })
      assert.ok(
        admissions.some(({ id, to, firedAt }) => id === sent.id && to.id === 'eve' && firedAt === epoch + 5),
      )
      assert.ok(admissions.some(({ id }) => id === again.id))
    }
    await known(store)
    if (capabilities.durable) {
      const again = await context.reopen()
      // After a restart the store can tell new recipients only once it has read all known ones.
      for (let turns = 0; turns < 50; turns += 1) await new Promise((resolve) => setTimeout(resolve, 1))
      await known(again)
      await must(again, { recipients: [{ tenant: 'acme', id: 'eve', email: 'new@example.com' }] })
      assert.deepEqual(await again.recipient('acme', 'eve'), {
        tenant: 'acme',
        id: 'eve',
        email: 'new@example.com',
      })
    }
  })

  test('keeps what is opted out behind the end under the name that is left', async (store) => {
    const sent = someNotification({ to: eve, content })
    await must(store, { accept: [sent] })
    await must(store, { moves: [settled(sent, epoch + 5)] })
    await store.beginErasure('acme', 'eve')
    const [mail] = await store.feedback.reported([sent.id])
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    assert.equal(await store.recipient('acme', 'eve'), undefined)
    const erased = mail!.to.id
    for (const optOuts of [[{ category: 'news' }], [{ category: 'news' }, { channel: 'sms' as const }]]) {
      const version = (await store.recipient('acme', 'eve'))?.left ?? 0
      const row = { tenant: 'acme', id: erased, optOuts, ...(store.isVersioned ? { version } : {}) }
      await must(store, { recipients: [row] })
      const { left: _, ...now } = (await store.recipient('acme', 'eve'))!
      assert.deepEqual(now, { tenant: 'acme', id: 'eve', optOuts, erased })
    }
    const stale = { tenant: 'acme', id: erased, optOuts: [], version: 0 }
    if (store.isVersioned) assert.equal((await store.commit({ recipients: [stale] })).applied, false)
  })

  test('lists unfinished notifications, and erases none of them', async (store) => {
    const waits = someNotification({ to: eve, content, status: 'scheduled', dueAt: epoch + 9_000 })
    const dead = someNotification({ to: eve, content })
    await must(store, { accept: [waits, dead] })
    const died = advance(dead, [{ at: epoch, status: 'dead', reason: 'shed' }])
    await must(store, { moves: [died] })
    await store.beginErasure('acme', 'eve')
    const result = await store.erase('acme', 'eve')
    assert.ok(!result.done)
    assert.deepEqual(new Set(result.open), new Set([waits.id, dead.id]))
    assert.deepEqual(await store.notification('acme', waits.id), waits)
    const end = { at: epoch, status: 'cancelled' } as const
    await must(store, { moves: [advance(waits, [end]), advance(died.after, [end])] })
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    assert.equal((await store.notification('acme', waits.id))?.content, undefined)
    await agree(store)
  })

  test('removes a recipient from stored answers and from the remaining work of jobs', async (store) => {
    const body = JSON.stringify({
      results: [
        { recipient: 'eve', code: 'INVALID_REQUEST', detail: 'eve@example is no address' },
        { recipient: 'bob', notificationId: 'n1' },
      ],
    })
    const answer: StoredAnswer = {
      tenant: 'acme',
      module: 'shop',
      method: 'POST',
      path: '/batch',
      key: 'k',
      requestHash: 'h',
      status: 202,
      body,
      createdAt: epoch,
    }
    const job = someJob({ refused: [{ recipient: 'eve', code: 'INVALID_REQUEST', detail: 'eve@example' }] })
    const message = { channel: 'email', category: 'news', priority: 'normal', content } as const
    const bob = { id: 'bob', email: 'bob@example.com' }
    await must(store, { answer, jobs: [{ kind: 'open', job, work: { message, recipients: [eve, bob] } }] })
    await store.beginErasure('acme', 'eve')
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    const kept = (await store.answer(answer))!
    assert.equal(kept.requestHash, 'h')
    assert.ok(kept.body.includes('"bob"') && !kept.body.includes('eve'), kept.body)
    const work = (await store.jobWork(job))!
    assert.deepEqual(work.recipients[1], bob)
    assert.deepEqual(Object.keys(work.recipients[0]!), ['id'])
    assert.ok(work.recipients[0]!.id.startsWith(pseudonymPrefix))
    assert.deepEqual(work.message.content, content, 'what is said to the others stays')
    assert.ok(!JSON.stringify(await store.job('acme', job.id)).includes('eve'))
  })

  test('takes no step of a job that was read before the erasure of a recipient whom it had refused', async (store) => {
    const refusal = { recipient: 'eve', code: 'INVALID_REQUEST', detail: 'eve@example is no address' }
    const job = someJob({ taken: 1, refused: [refusal] })
    const message = { channel: 'email', category: 'news', priority: 'normal', content } as const
    const recipients = ['amy', 'bob', 'dan'].map((id) => ({ id, email: `${id}@example.com` }))
    await must(store, { jobs: [{ kind: 'open', job, work: { message, recipients } }] })
    await store.beginErasure('acme', 'eve')
    const step = (before: Job) => ({ kind: 'move', before, after: { ...before, taken: 2 } }) as const
    assert.equal((await store.commit({ jobs: [step(job)] })).applied, false)
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    await must(store, { jobs: [step((await store.job('acme', job.id))!)] })
    const now = (await store.job('acme', job.id))!
    assert.equal(now.taken, 2)
    assert.ok(!JSON.stringify(now).includes('eve'), JSON.stringify(now.refused))
  })

  test('takes a recipient out of what batches refuse that were opened behind the beginning', async (store) => {
    const refused = [{ recipient: 'eve', code: 'INVALID_REQUEST', detail: 'eve@example is no address' }]
    const [running, ended] = [someJob({ taken: 1, refused }), someJob()]
    const message = { channel: 'email', category: 'news', priority: 'normal', content } as const
    const work = { message, recipients: [{ id: 'amy' }, { id: 'bob' }] }
    await store.beginErasure('acme', 'eve')
    for (const job of [running, ended]) await must(store, { jobs: [{ kind: 'open', job, work }] })
    const after = { ...ended, taken: ended.total, refused, status: 'done' } as const
    await must(store, { jobs: [{ kind: 'move', before: ended, after }] })
    assert.deepEqual(await store.erase('acme', 'eve'), { done: true })
    for (const { id } of [running, ended]) {
      const kept = (await store.job('acme', id))!
      assert.ok(!JSON.stringify(kept).includes('eve'), JSON.stringify(kept.refused))
    }
    const now = (await store.job('acme', running.id))!
    await must(store, { jobs: [{ kind: 'move', before: now, after: { ...now, taken: 2 } }] })
  })

  test('leaves answers as they are that contain the id of a recipient as a word', async (store) => {
    const answerOf = (key: string, body: string): StoredAnswer => ({
      ...{ tenant: 'acme', module: 'shop', method: 'POST', path: '/batch', key, requestHash: 'h' },
      ...{ status: 202, body, createdAt: epoch },
    })
    const result = { recipient: 'bob', notificationId: 'n1', status: 'queued' }
    const single = answerOf('single', JSON.stringify({ notificationId: 'n2', status: 'queued' }))
    const others = answerOf('others', JSON.stringify({ results: [result] }))
    const own = answerOf('own', JSON.stringify({ results: [result, { ...result, recipient: 'status' }] }))
    for (const answer of [single, others, own]) await must(store, { answer })
    await store.beginErasure('acme', 'status')
    assert.deepEqual(await store.erase('acme', 'status'), { done: true })
    assert.deepEqual(await store.answer(single), single)
    assert.deepEqual(await store.answer(others), others)
    const { results } = JSON.parse((await store.answer(own))!.body)
    assert.deepEqual(results[0], result)
    assert.deepEqual({ ...results[1], recipient: 'status' }, { ...result, recipient: 'status' })
    assert.ok(results[1].recipient.startsWith(pseudonymPrefix))
  })

  test('erases an unknown recipient, and again', async (store) => {
    for (let round = 0; round < 2; round += 1) {
      await store.beginErasure('acme', 'nobody')
      assert.deepEqual(await store.erase('acme', 'nobody'), { done: true })
    }
    assert.equal(await store.recipient('acme', 'nobody'), undefined)
  })
}
