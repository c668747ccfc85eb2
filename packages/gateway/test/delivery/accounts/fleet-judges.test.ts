/** Processes with different accounts, and which of them judges each account. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFleetJudges } from '../../../src/delivery/accounts/fleet-judges.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const second = 1_000
const short = (id: string) => ({ id, isLong: false })
const long = (id: string) => ({ id, isLong: true })

function openProcesses() {
  const clock = createVirtualClock(1_000_000)
  const listeners = new Set<(message: unknown, from: string) => void>()
  /** The first process that asks for a role has it. */
  const holders = new Map<string, string>()
  return {
    holders,
    pass: (ms: number) => clock.runUntil(clock.now() + ms),
    join(name: string, accounts: readonly { readonly id: string; readonly isLong: boolean }[]) {
      const hear = (listener: (message: unknown, from: string) => void) => (message: unknown, from: string) =>
        from === name ? undefined : listener(message, from)
      return createFleetJudges({
        clock,
        accounts: new Map([['sms/x', accounts]]),
        members: {
          holds(role) {
            if (!holders.has(role)) holders.set(role, name)
            return holders.get(role) === name
          },
        },
        peers: {
          tell: (_, message) => {
            for (const listener of listeners) listener(message, name)
          },
          listen(_, listener) {
            const heard = hear(listener)
            listeners.add(heard)
            return () => void listeners.delete(heard)
          },
        },
      })
    },
  }
}

test('the process that judges a pool judges every account that it knows', async () => {
  const rig = openProcesses()
  const [first, second_] = [rig.join('a', [short('x')]), rig.join('b', [short('x')])]
  assert.ok(first.judges('sms/x', 'x') && first.judges('sms/x'))
  await rig.pass(5 * second)
  assert.ok(!second_.judges('sms/x', 'x') && !second_.judges('sms/x'))
})

test('an account that it does not know, or of which it does not know a long window, is judged by one of the others', async () => {
  const rig = openProcesses()
  const older = rig.join('a', [short('x'), short('y')])
  assert.ok(older.judges('sms/x'))
  const newer = rig.join('b', [short('x'), long('y'), short('z')])
  const other = rig.join('c', [short('x'), long('y'), short('z')])
  assert.ok(!newer.judges('sms/x', 'z'), 'nothing is known of the judge yet')
  await rig.pass(3 * second)
  const judged = (judges: typeof newer) => ['x', 'y', 'z'].filter((id) => judges.judges('sms/x', id)).join('')
  assert.equal(judged(newer), 'yz')
  assert.ok(newer.judges('sms/x'))
  assert.equal(judged(other), '')
  assert.ok(!other.judges('sms/x'))
})

test('it goes back to the judge of the pool when that knows it, and when nothing is heard of a judge', async () => {
  const rig = openProcesses()
  const older = rig.join('a', [short('x')])
  assert.ok(older.judges('sms/x'))
  const newer = rig.join('b', [short('x'), short('z')])
  await rig.pass(3 * second)
  assert.ok(newer.judges('sms/x', 'z'))
  older.close()
  await rig.pass(11 * second)
  assert.ok(!newer.judges('sms/x', 'z'))
  rig.holders.set('judge:sms/x', 'c')
  const restarted = rig.join('c', [short('x'), short('z')])
  await rig.pass(3 * second)
  assert.ok(restarted.judges('sms/x', 'z') && !newer.judges('sms/x', 'z'))
})
