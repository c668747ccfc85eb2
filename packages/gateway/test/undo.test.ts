import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withUndo } from '../src/undo.ts'

const unexpected = (what: string, error: unknown): void => {
  throw new Error(what, { cause: error })
}

/** Resolves in a later turn of the event loop. */
const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('an undo list releases what was taken in reverse order, one after the other, before the try ends', async () => {
  const held = ['a', 'b', 'c']
  const release = (name: string) => async () => {
    await later()
    assert.equal(held.pop(), name)
  }
  const result = await withUndo(unexpected, async (undo) => {
    for (const name of held) undo.add(release(name))
    return 'refused'
  })
  assert.equal(result, 'refused')
  assert.deepEqual(held, [])
})

test('an undo list that keeps what was taken releases only what is needed until the end of the try', async () => {
  const released: string[] = []
  await withUndo(unexpected, async (undo) => {
    undo.add(() => void released.push('reservation'))
    undo.always(() => void released.push('room'))
    undo.keep()
  })
  assert.deepEqual(released, ['room'])
})

test('an undo list releases what was taken after the last commit', async () => {
  const released: string[] = []
  await withUndo(unexpected, async (undo) => {
    undo.add(() => void released.push('committed'))
    undo.keep()
    undo.add(() => void released.push('not committed'))
  })
  assert.deepEqual(released, ['not committed'])
})

test('a release that fails is reported, the other releases run, and the error of the try is the one that is thrown', async () => {
  const released: string[] = []
  const errors: unknown[] = []
  const work = withUndo(
    (_what, error) => errors.push(error),
    async (undo) => {
      undo.add(() => void released.push('first'))
      undo.add(async () => {
        await later()
        throw new Error('rejected')
      })
      undo.add(() => {
        throw new Error('thrown')
      })
      undo.always(() => void released.push('last'))
      throw new Error('the try')
    },
  )
  await assert.rejects(work, { message: 'the try' })
  assert.deepEqual(released, ['last', 'first'])
  assert.deepEqual(
    errors.map((error) => (error as Error).message),
    ['thrown', 'rejected'],
  )
})
