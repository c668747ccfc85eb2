/** The conformance suite of the port that knows the processes of a fleet: `exerciseMembers` runs it on any adapter. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Members, Role } from '../ports/fleet.ts'

const roles: readonly Role[] = ['retention', 'orphans', 'redrive:email', 'redrive:sms']

/**
 * Registers the suite `name` with node:test. `open` gives a process of a fleet that has no other member alive; `until`
 * waits until a condition holds that takes as long as the adapter needs for it.
 */
export function exerciseMembers(
  name: string,
  open: () => Members | Promise<Members>,
  until: (condition: () => boolean) => Promise<void>,
): void {
  describe(name, () => {
    it('counts the process itself, and brings it each role that it asks for', async () => {
      const members = await open()
      assert.equal(members.count(), 1)
      assert.ok(!members.othersServe('email'))
      for (const role of roles) await until(() => members.holds(role))
      assert.ok(
        roles.every((role) => members.holds(role)),
        'a role stays',
      )
      await members.close()
    })

    it('holds no role once it is closed, and a successor gets them', async () => {
      const before = await open()
      for (const role of roles) await until(() => before.holds(role))
      await before.close()
      assert.ok(!roles.some((role) => before.holds(role)))
      const after = await open()
      for (const role of roles) await until(() => after.holds(role))
      await after.close()
    })

    it('gives each process a name of its own, also one after the other', async () => {
      const names = new Set<string>()
      for (let opened = 0; opened < 5; opened += 1) {
        const members = await open()
        names.add(members.id)
        await members.close()
      }
      assert.equal(names.size, 5)
    })
  })
}
