/** The conformance suite of the port for hints between processes: `exerciseNotifier` runs it on any adapter. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Hint, Notifier } from '../ports/fleet.ts'

const hint: Hint = { topic: 'recipient', tenant: 'acme', recipient: 'user-1' }

/**
 * Registers the suite `name` with node:test. `open` gives a fleet without processes; `until` waits until a condition holds
 * that takes as long as the adapter needs for it.
 */
export function exerciseNotifier(
  name: string,
  open: () => { join(): Notifier | Promise<Notifier>; close(): Promise<void> },
  until: (condition: () => boolean) => Promise<void>,
): void {
  function test(
    title: string,
    body: (join: () => Promise<{ notifier: Notifier; heard: Hint[] }>) => Promise<void>,
  ) {
    it(title, async () => {
      const fleet = open()
      const joined: Notifier[] = []
      try {
        await body(async () => {
          const notifier = await fleet.join()
          joined.push(notifier)
          const heard: Hint[] = []
          notifier.listen((each) => heard.push(each))
          return { notifier, heard }
        })
      } finally {
        await Promise.all(joined.map((notifier) => notifier.close()))
        await fleet.close()
      }
    })
  }

  describe(name, () => {
    test('tells every other process, and not the one that tells', async (join) => {
      const [a, b, c] = [await join(), await join(), await join()]
      a.notifier.tell(hint)
      await until(() => b.heard.length > 0 && c.heard.length > 0)
      b.notifier.tell({ topic: 'holds' })
      await until(() => a.heard.length > 0 && c.heard.length > 1)
      assert.deepEqual(
        [a.heard, b.heard, c.heard],
        [[{ topic: 'holds' }], [hint], [hint, { topic: 'holds' }]],
      )
    })

    test('tells nobody where there is no other process', async (join) => {
      const a = await join()
      a.notifier.tell(hint)
      const b = await join()
      b.notifier.tell({ topic: 'holds' })
      await until(() => a.heard.length > 0)
      assert.deepEqual([a.heard, b.heard], [[{ topic: 'holds' }], []])
    })

    test('calls a listener no more that has ended, or whose process has closed', async (join) => {
      const [a, b, c] = [await join(), await join(), await join()]
      const late: Hint[] = []
      const end = b.notifier.listen((each) => late.push(each))
      end()
      await c.notifier.close()
      a.notifier.tell(hint)
      await until(() => b.heard.length > 0)
      c.notifier.tell({ topic: 'holds' })
      a.notifier.tell(hint)
      await until(() => b.heard.length > 1)
      assert.deepEqual([a.heard, b.heard, c.heard, late], [[], [hint, hint], [], []])
    })
  })
}
