/** A result that the store cannot take: the gateway does not end as if nothing of it had been sent. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createHarness, second } from '../harness.ts'

/** A store that takes no result while it is told so; it keeps how it was closed. */
function refusingStore() {
  const closedAs: (boolean | undefined)[] = []
  let isRefusing = false
  const wrap = (store: Store): Store => ({
    ...store,
    commit: async (change) => {
      if (isRefusing && change.moves !== undefined) throw new Error('The value is refused.')
      return store.commit(change)
    },
    close(isSettled) {
      closedAs.push(isSettled)
      return store.close(isSettled)
    },
  })
  function refuse(yes: boolean): void {
    isRefusing = yes
  }
  return { wrap, closedAs, refuse }
}

for (const [name, isRefusing] of [
  ['refused', true],
  ['written', false],
] as const)
  test(`a stop behind a result that was ${name} closes the record ${isRefusing ? 'unsettled' : 'settled'}`, async () => {
    const { wrap, closedAs, refuse } = refusingStore()
    const harness = await createHarness({ wrap })
    refuse(isRefusing)
    const { id } = await harness.post()
    await harness.runFor(5 * second)
    assert.equal(harness.sent().length, 1)
    assert.equal((await harness.notification(id)).status === 'delivered', !isRefusing)
    refuse(false)
    await harness.stop()
    assert.deepEqual(closedAs, [!isRefusing])
  })
