/** Filters of a list by fields that have no column of their own. */
import assert from 'node:assert/strict'
import { epoch, someNotification } from './sample.ts'
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
}
