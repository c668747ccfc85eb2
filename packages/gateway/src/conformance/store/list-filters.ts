/** Filters of a list by fields that have no column of their own. */
import assert from 'node:assert/strict'
import { advance, type Notification } from '../../model.ts'
import type { Page } from '../../ports.ts'
import { epoch, seeded, someNotification } from './sample.ts'
import type { Test } from './suite.ts'
import { ids, must } from './suite.ts'

export function listFilters(test: Test): void {
  test('filters a list by module, priority, template, actor, reason, limit and ids', async (store) => {
    const decision = {
      outcome: 'delay',
      reason: 'quiet_hours',
      limit: 'mail',
      policyVersion: 'p',
      rules: [],
    } as const
    const wanted = someNotification({
      module: 'shop',
      priority: 'low',
      template: 'news',
      actor: 'ann',
      decision,
    })
    const others = [
      { module: 'crm' },
      { priority: 'high' as const },
      { template: 'other' },
      { actor: 'bob' },
      { decision: { ...decision, limit: 'other' } },
      {
        timeline: [
          { at: epoch, status: 'accepted' as const },
          { at: epoch, status: 'queued' as const, reason: 'retry' as const },
        ],
      },
    ].map((fields, index) => someNotification({ ...wanted, id: `other-${index}`, ...fields }))
    await must(store, { accept: [wanted, ...others] })
    const list = async (filter: object) =>
      (await store.list({ tenant: 'acme', limit: 10, ...filter })).items.map(({ id }) => id)
    const all = ids([wanted, ...others])
    for (const [index, filter] of [
      { module: 'shop' },
      { priority: 'low' },
      { template: 'news' },
      { actor: 'ann' },
      { limitName: 'mail' },
      { reason: 'quiet_hours' },
    ].entries())
      assert.deepEqual((await list(filter)).sort(), all.filter((id) => id !== `other-${index}`).sort())
    assert.deepEqual(await list({ reason: 'retry' }), ['other-5'], 'the newest event before the decision')
    assert.deepEqual(await list({ ids: [wanted.id, 'nowhere'], reason: 'quiet_hours' }), [wanted.id])
    assert.deepEqual(await list({ ids: [wanted.id], module: 'crm' }), [])
  })

  test('lists what waits in the order in which it is due, page by page', async (store) => {
    const chance = seeded(7)
    const due = (): number => epoch + Math.floor(chance() * 20)
    const rows = Array.from({ length: 60 }, (_, index) =>
      someNotification({
        id: `n${String(index).padStart(3, '0')}`,
        status: index % 3 === 0 ? 'queued' : 'scheduled',
        dueAt: due(),
        channel: index % 2 === 0 ? 'sms' : 'email',
        tenant: index % 5 === 0 ? 'other' : 'acme',
        ...(index % 7 === 0 ? { job: 'j' } : {}),
      }),
    )
    const gone = someNotification({ id: 'x-suppressed', status: 'suppressed', dueAt: epoch })
    await must(store, { accept: [...rows, gone] })
    const moved = rows[1]!
    await must(store, {
      moves: [advance(moved, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 99 })],
    })
    const now = rows.map((row) => (row === moved ? { ...row, dueAt: epoch + 99 } : row))
    const expected = (fits: (row: (typeof now)[number]) => boolean): readonly string[] =>
      now
        .filter((row) => row.tenant === 'acme' && fits(row))
        .sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1))
        .map(({ id }) => id)
    const all = async (filter: object): Promise<readonly string[]> => {
      const found: string[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page: Page<Notification> = await store.list({
          tenant: 'acme',
          limit: 7,
          order: 'sendAt',
          ...filter,
          ...(cursor === undefined ? {} : { cursor }),
        })
        assert.ok(page.items.length <= 7)
        found.push(...page.items.map(({ id }) => id))
        cursor = page.nextCursor
      }
      return found
    }
    assert.deepEqual(
      await all({}),
      expected(() => true),
    )
    assert.deepEqual(
      await all({ channel: 'sms' }),
      expected(({ channel }) => channel === 'sms'),
    )
    assert.deepEqual(
      await all({ statuses: ['queued'] }),
      expected(({ status }) => status === 'queued'),
    )
    assert.deepEqual(
      await all({ job: 'j' }),
      expected(({ job }) => job === 'j'),
    )
    assert.deepEqual(
      await all({ ids: ['n004', 'n002', 'x-suppressed'] }),
      expected(({ id }) => id === 'n004' || id === 'n002'),
    )
  })
}
