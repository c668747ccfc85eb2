/** docs/reference/metrics.md names every metric that the gateway answers, and no other. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createSite } from '../child.ts'

const page = readFileSync(new URL('../../../../docs/reference/metrics.md', import.meta.url), 'utf8')

test('the page of metrics names every metric with its labels, and no other', async (t) => {
  // A delivery log has metrics of its own, also while it is away; the gateway starts without it.
  const site = await createSite(t, {
    config: { deliveryLog: 'cassandra://127.0.0.1:1/away', queue: 'amqp://127.0.0.1:1' },
  })
  await site.start()
  const { text } = await site.call('GET', '/metrics')
  const answered = new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!))
  // A gateway over PostgreSQL answers more, one whose limits are in Redis, one of a fleet and one with topics:
  // guarantees/{fleet-told.long,fleet-away.long,fleet-orders.crash.long}.test.ts and intake/dead-letters.test.ts.
  const rows = page
    .split('\n')
    .filter(
      (line) =>
        line.startsWith('| `') && !/with `(state: redis|store: postgres|intake)|`sluice_fleet_/.test(line),
    )
  const listed = new Set(
    rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!)),
  )
  assert.deepEqual([...listed].toSorted(), [...answered].toSorted())
  for (const row of rows) {
    const [, names, labels] = row.split('|')
    const documented = new Set([...labels!.matchAll(/`(\w+)`/g)].map(([, name]) => name!))
    for (const [, name] of names!.matchAll(/`(\w+)`/g)) {
      for (const [, list] of text.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?\\{(.*)\\} `, 'gm'))) {
        const found = [...list!.matchAll(/(\w+)="/g)]
          .map(([, label]) => label!)
          .filter((label) => label !== 'le')
        assert.deepEqual(found.toSorted(), [...documented].toSorted(), name)
      }
    }
  }
})
