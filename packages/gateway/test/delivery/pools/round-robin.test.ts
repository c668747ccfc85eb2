import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RoundRobin } from '../../../src/delivery/pools/round-robin.ts'
import { seeded, testSeed } from '../../harness.ts'

interface Member {
  readonly id: number
  freeAt: number | undefined
}

test('free members take turns, and the others are tested when their instant has come', () => {
  const members: Member[] = [0, 1, 2].map((id) => ({ id, freeAt: 0 }))
  const turns = new RoundRobin({ members, freeAt: ({ freeAt }) => freeAt })
  const take = (now: number) => turns.next(now)?.id
  assert.deepEqual([take(0), take(0), take(0), take(0)], [0, 1, 2, 0])
  members[1]!.freeAt = 100
  members[2]!.freeAt = undefined
  assert.deepEqual([take(1), take(1)], [0, 0])
  members[0]!.freeAt = 50
  assert.deepEqual([take(1), turns.freeAt(1)], [undefined, 50])
  assert.deepEqual([take(50), take(99), take(100)], [0, 0, 0])
  assert.equal(take(100), 1)
  members[2]!.freeAt = 0
  assert.notEqual(take(101), 2, 'it was not reported as free')
  turns.ended(members[2]!)
  assert.ok([take(102), take(102), take(102)].includes(2))
})

test(`round robin finds a member whenever one is free, and tests few of a thousand`, (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const members: Member[] = Array.from({ length: 1_000 }, (_, id) => ({ id, freeAt: 0 }))
  let looks = 0
  const turns = new RoundRobin({
    members,
    freeAt: ({ freeAt }) => {
      looks += 1
      return freeAt
    },
  })
  let turnsGiven = 0
  for (let now = 0; now < 20_000; now += 1) {
    const member = turns.next(now)
    const someFree = now % 500 === 0 ? members.some(({ freeAt }) => freeAt! <= now) : undefined
    if (someFree !== undefined) assert.equal(member !== undefined, someFree)
    if (member === undefined) continue
    turnsGiven += 1
    assert.ok(member.freeAt! <= now)
    member.freeAt = now + 1 + Math.floor(chance() * 5_000)
  }
  t.diagnostic(`${(looks / turnsGiven).toFixed(2)} looks a turn`)
  assert.ok(looks < turnsGiven * 4)
})

test('a member free earlier than computed takes its turn after changed, and waits on after ended', () => {
  const members: Member[] = [0, 1].map((id) => ({ id, freeAt: 100 }))
  let looks = 0
  const turns = new RoundRobin({
    members,
    freeAt: ({ freeAt }) => {
      looks += 1
      return freeAt
    },
  })
  assert.equal(turns.freeAt(0), 100)
  members[1]!.freeAt = 10
  looks = 0
  turns.ended(members[1]!)
  assert.deepEqual([turns.freeAt(10), looks], [100, 0])
  turns.changed(members[1]!)
  assert.equal(turns.next(10)?.id, 1)
  members[0]!.freeAt = Number.POSITIVE_INFINITY
  members[1]!.freeAt = undefined
  turns.changed(members[0]!)
  assert.deepEqual([turns.next(100), turns.freeAt(100)], [undefined, undefined])
})

test('each free member has one turn per round, and the next instant is known, whatever becomes of the instants', (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const members: Member[] = Array.from({ length: 8 }, (_, id) => ({ id, freeAt: 0 }))
  const turns = new RoundRobin({ members, freeAt: ({ freeAt }) => freeAt })
  const soon = (now: number) => now + 1 + Math.floor(chance() * 50)
  let now = 0
  for (let step = 0; step < 20_000; step += 1) {
    if (chance() < 0.3) now += Math.floor(chance() * 20)
    const member = members[Math.floor(chance() * members.length)]!
    if (chance() < 0.3) {
      member.freeAt = chance() < 0.2 ? undefined : chance() < 0.5 ? now : soon(now)
      turns.changed(member)
    } else {
      const taken = turns.next(now)
      if (taken !== undefined) taken.freeAt = chance() < 0.2 ? undefined : soon(now)
    }
    const free = members.filter(({ freeAt }) => freeAt !== undefined && freeAt <= now)
    const round = new Set(free.map(() => turns.next(now)?.id))
    assert.deepEqual([...round].sort(), free.map(({ id }) => id).sort(), `step ${step}`)
    if (free.length > 0) continue
    const instants = members.flatMap(({ freeAt }) => (freeAt === undefined ? [] : [freeAt]))
    assert.equal(turns.freeAt(now), instants.length === 0 ? undefined : Math.min(...instants), `step ${step}`)
  }
})

test('other finds a free member without taking a turn, and a turn given back is the next', () => {
  const members: Member[] = [0, 1, 2].map((id) => ({ id, freeAt: 0 }))
  const turns = new RoundRobin({ members, freeAt: ({ freeAt }) => freeAt })
  assert.equal(turns.other(0, members[0]!)?.id, 1)
  assert.equal(turns.other(0, members[1]!)?.id, 0)
  assert.equal(turns.next(0)?.id, 0, 'no turn was taken by this')
  members[1]!.freeAt = 10
  assert.equal(turns.other(0, members[2]!)?.id, 0, 'who is not free is passed over')
  members[0]!.freeAt = undefined
  assert.equal(turns.other(0, members[2]!), undefined)
  members[0]!.freeAt = 0
  members[1]!.freeAt = 0
  assert.deepEqual([turns.next(0)?.id, turns.next(0)?.id], [1, 2])
  turns.giveBack(members[1]!)
  assert.deepEqual([turns.next(0)?.id, turns.next(0)?.id, turns.next(0)?.id], [1, 0, 2])
  turns.giveBack(members[1]!)
  turns.giveBack(members[1]!)
  assert.deepEqual([turns.next(0)?.id, turns.next(0)?.id, turns.next(0)?.id, turns.next(0)?.id], [1, 0, 2, 1])
})
