/** The instants that a digest has given up while it is planned, where the record and memory name different limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDigestPlaces } from '../../../src/admission/digests/digest-places.ts'
import { someDigest } from '../../../src/conformance/store/sample.ts'
import type { ReservationRequest } from '../../../src/stages.ts'
import { withUndo } from '../../../src/undo.ts'

const heldAs = { module: 'app', to: { id: 'ada' }, priority: 'normal', actors: ['eve'] } as const
const { recipient: _, ...digest } = someDigest({ heldAs })
const found = { digest: { ...digest, recipient: 'ada' }, recipient: null }
const { tenant, channel, category } = digest

/** Places whose limits do not answer for one author while `away` says so. */
function open(away: { author: string | undefined }) {
  const [lifted, ended]: [string[], string[]] = [[], []]
  const authorOf = ({ actors }: ReservationRequest['notification']): string => actors!.join()
  const places = createDigestPlaces({
    clock: { now: () => 50 },
    limiter: {
      reservedAt: async () => 100,
      async lift({ notification }) {
        const author = authorOf(notification)
        if (author === away.author) throw new Error('the server is away')
        lifted.push(author)
        return async () => void ended.push(author)
      },
    },
  })
  // The change of the record has failed, or is older than another gateway's.
  const notification = { id: digest.id, tenant, channel, category, ...heldAs, actors: ['bob'] }
  places.remember(digest.id, { notification, recipient: null, at: 100 })
  const plan = () =>
    withUndo(assert.fail, async (undo) => {
      await places.lift({ ...found, undo })
    })
  return { lifted, ended, plan }
}

test('ends the pauses of what was lifted where the rest cannot be', async () => {
  const { lifted, ended, plan } = open({ author: 'bob' })
  await assert.rejects(plan(), /away/)
  assert.deepEqual([lifted, ended], [['eve'], ['eve']])
})

test('lifts by the next plan what could not be lifted', async () => {
  const away: { author: string | undefined } = { author: 'bob' }
  const { lifted, plan } = open(away)
  await assert.rejects(plan(), /away/)
  away.author = undefined
  await plan()
  assert.deepEqual(lifted, ['eve', 'eve', 'bob'])
})
