/** Content at hand is bounded in bytes, however small or large each is, and leaves nothing behind that is erased. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createErasure } from '../../src/admission/erasure.ts'
import type { SharedContent } from '../../src/content.ts'
import { createContents } from '../../src/ledger/contents.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

/** A record of contents that says how often it was asked. */
function recordOf(contents: readonly SharedContent[]) {
  const byId = new Map(contents.map((content) => [content.id, content]))
  let asked = 0
  return {
    byId,
    asked: () => asked,
    content: (_tenant: string, id: string) => {
      asked += 1
      return Promise.resolve(byId.get(id))
    },
  }
}

const contentOf = (id: string, text: string, tenant = 'acme'): SharedContent => ({
  id,
  tenant,
  bytes: text.length + 11,
  content: { text },
})

async function keptOf(contents: readonly SharedContent[], bytesMax: number): Promise<number> {
  const record = recordOf(contents)
  const cache = createContents({ store: record, bytesMax })
  for (const content of contents) cache.keep(content)
  // From the last to the first, so that what is read in again pushes out nothing that is still to be asked for.
  for (const { tenant, id } of contents.toReversed()) await cache.find(tenant, id)
  return contents.length - record.asked()
}

test('contents of a few characters take as much memory as their entries do, and not as their text', async () => {
  const small = Array.from({ length: 10_000 }, (_, n) => contentOf(`small-${n}`, 'hi'))
  const kept = await keptOf(small, 400_000)
  assert.ok(kept > 0 && kept <= 2_000, `${kept} are kept in 400 kB`)
})

test('what an erasure took from the record is not answered from memory', async () => {
  const own = contentOf('01-eve', 'the code is 8817263')
  const others = contentOf('01-bob', 'for another tenant', 'other')
  const record = recordOf([own, others])
  const contents = createContents({ store: record })
  contents.keep(own)
  contents.keep(others)
  assert.deepEqual(await contents.find('acme', own.id), own)
  const erasure = createErasure({
    store: {
      beginErasure: () => Promise.resolve(),
      erase() {
        record.byId.delete(own.id)
        return Promise.resolve({ done: true })
      },
      erasures: () => Promise.resolve([]),
    },
    recipients: { forget() {} },
    contents,
    cancel: () => Promise.resolve(),
    rereadJobs: () => Promise.resolve(),
    clock: createVirtualClock(0),
    onError: assert.ifError,
  })
  await erasure.erase('acme', 'eve')
  await assert.rejects(async () => contents.find('acme', own.id), { code: 'NOT_FOUND' })
  const askedBefore = record.asked()
  assert.deepEqual(await contents.find('other', others.id), others)
  assert.equal(record.asked(), askedBefore, 'another tenant’s stay at hand')
})
