/** The content cache is bounded in bytes for contents of any size, and keeps nothing that was erased. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createErasure } from '../../src/admission/erasure.ts'
import type { SharedContent } from '../../src/content.ts'
import { createContents } from '../../src/ledger/contents.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

/** A store of contents that counts its reads. */
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
  // From last to first, so that a content that is read again evicts none that is still to be read.
  for (const { tenant, id } of contents.toReversed()) await cache.find(tenant, id)
  return contents.length - record.asked()
}

test('short contents are counted with the memory of their cache entries', async () => {
  const small = Array.from({ length: 10_000 }, (_, n) => contentOf(`small-${n}`, 'hi'))
  const kept = await keptOf(small, 400_000)
  assert.ok(kept > 0 && kept <= 2_000, `${kept} are kept in 400 kB`)
})

test('erased content is not served from the cache', async () => {
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
    digests: { forgetRecipient() {} },
    rereadJobs: () => Promise.resolve(),
    notifier: { tell: () => {} },
    members: { onDeath: () => () => {} },
    clock: createVirtualClock(0),
    onError: assert.ifError,
  })
  await erasure.erase('acme', 'eve')
  await assert.rejects(async () => contents.find('acme', own.id), { code: 'NOT_FOUND' })
  const askedBefore = record.asked()
  assert.deepEqual(await contents.find('other', others.id), others)
  assert.equal(record.asked(), askedBefore, 'another tenant’s stay at hand')
})
