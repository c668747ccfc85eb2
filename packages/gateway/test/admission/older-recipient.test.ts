/**
 * A gateway that remembers an older recipient, because the hint of the gateway that saved a newer one was lost: what it
 * remembers ends nothing that the recipient on record lets go.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Draft, Recipient } from '../../src/model.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, type Harness, minute, second } from '../harness.ts'

const rightMs = 250
const ada = { tenant: 'default', id: 'ada' }
const closed = { optOuts: [{ category: 'product' }] }
const item = { template: 'new-comment', data: {} }

/** Two gateways of one record between which no hint arrives. */
async function openTwo() {
  const clock = createVirtualClock(Date.UTC(2026, 10, 29, 12))
  const record = createMemoryRecord(rightMs)
  const open = (member: string): Promise<Harness> =>
    createHarness({
      clock,
      policy: {
        version: 1,
        limits: [],
        digests: [
          {
            name: 'news',
            for: { template: 'new-comment' },
            window: '10s',
            minItems: 2,
            maxItems: 4,
            template: 'activity-digest',
          },
        ],
      },
      config: { tenants: { default: { rate: '2/min', modules: 'unlimited' } } },
      parts: { store: record.open(member) },
    })
  return { a: await open('a'), b: await open('b') }
}

async function save({ gateway, runFor, done }: Harness, preferences: Partial<Recipient>): Promise<void> {
  const { version = 0 } = (await gateway.store.recipient(ada.tenant, ada.id)) ?? {}
  const saving = gateway.gate.saveRecipient({ ...ada, ...preferences, version } as Recipient)
  await runFor(2 * rightMs)
  assert.ok(await done(saving))
}

const cases: Readonly<Record<string, readonly Partial<Draft>[]>> = {
  'that is due': [{ sendAt: 10 * second }],
  'that has its turn in the throttle queue of its tenant': [{}, {}, {}],
  'that waits in a digest': [item, item],
}

describe('A gateway that remembers that a recipient has opted out, and has not heard that it is over,', () => {
  for (const [what, drafts] of Object.entries(cases))
    it(`delivers what another gateway has accepted since ${what}`, async () => {
      const { a, b } = await openTwo()
      await save(a, closed)
      assert.equal((await a.post()).status, 'suppressed')
      await save(b, { optOuts: [] })
      const posted: string[] = []
      for (const { sendAt, ...draft } of drafts) {
        const at = sendAt === undefined ? {} : { sendAt: b.clock.now() + sendAt }
        posted.push((await b.post({ ...draft, ...at })).id)
      }
      await b.stop()
      await a.runFor(5 * minute)
      for (const id of posted) {
        const { status, timeline } = await a.notification(id)
        assert.ok(['delivered', 'merged'].includes(status), JSON.stringify(timeline))
      }
      await a.stop()
    })
})
