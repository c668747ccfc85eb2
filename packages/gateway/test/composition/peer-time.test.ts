/** A gateway that starts beside others asks them for their time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { goWithOthers, tellTime } from '../../src/composition/peer-time.ts'
import type { Peers } from '../../src/ports/fleet.ts'

/** A clock that follows a server, as one that starts does. */
function follow(leadMs: number) {
  const clock = createSystemClock()
  clock.follow({ leadMs, errorMs: 0.1 })
  return clock
}

/** The others as one process hears them: it gets no answer to the first questions. */
function peersOf(answer: () => unknown, unheard = 0): Pick<Peers, 'ask'> {
  let asked = 0
  return {
    async ask() {
      asked += 1
      return { answers: new Map(asked > unheard ? [['other', answer()]] : []), silent: [] }
    },
  }
}

const lead = performance.timeOrigin
const two = { count: () => 2 }

for (const byMs of [3_600_000, 5_000, -5_000, 150, -3_600_000])
  test(`has their time where the clock of the server was set by ${byMs} ms just before`, async () => {
    const running = follow(lead)
    let answer = (): unknown => assert.fail('it answers nothing')
    tellTime(running, {
      answer(_, answerer) {
        answer = () => answerer(null, '')
      },
    })
    const starting = follow(lead + byMs)
    await goWithOthers(starting, { members: two, peers: peersOf(answer, 3) })
    const apartMs = starting.now() - running.now()
    assert.ok(Math.abs(apartMs) < 10, `${apartMs} ms apart`)
    // The wall clock is that of the server, as far as a step counts as one.
    assert.ok(Math.abs(starting.aheadMs() - (Math.abs(byMs) < 250 ? 0 : byMs)) < 10, `${starting.aheadMs()}`)
    // Instants of clients and providers are read with it, and the record has whole milliseconds.
    assert.ok(Number.isInteger(starting.aheadMs()), `${starting.aheadMs()} ms ahead`)
  })

test('keeps its own where it is alone, where nobody answers, and where they differ by little', async () => {
  let starting = follow(lead)
  for (const [members, peers] of [
    [{ count: () => 1 }, peersOf(() => assert.fail('nobody is asked'))],
    [two, peersOf(() => 0, 1_000)],
    [two, peersOf(() => starting.now() + 15)],
  ] as const) {
    starting = follow(lead)
    await goWithOthers(starting, { members, peers })
    assert.ok(Math.abs(starting.now() - (lead + performance.now())) < 5)
  }
})
