/**
 * The conformance suite of the port towards the limits of tenants and modules: `exerciseThrottle` runs it on any state.
 * Times are those of the clock that `open` gives; no test depends on how fast the state answers.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow, type Window } from '@sluice/limits'
import type { ThrottleRequest, ThrottleState } from '../ports/tenants.ts'

export interface OpenThrottle {
  readonly state: ThrottleState
  readonly now: () => number
  /** Lets time pass, up to this instant. */
  readonly until: (instant: number) => Promise<void>
}

export interface ThrottleTerms {
  /** The windows of the tenant `acme`; every other tenant has none. */
  readonly tenant: readonly Window[]
  readonly module: readonly Window[]
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
}

const second = 1_000
const marginMs = 20
const perTenant = (text: string): ThrottleTerms => ({ tenant: [parseWindow(text)], module: [], marginMs })

export interface ThrottleCapabilities {
  /**
   * True if a turn of an entry that is in no queue counts, and waits before all others where no window admits it: a state
   * that several processes share may have lost the entry. @defaultValue false: it has passed now
   */
  readonly countsUnknownTurns?: boolean
}

/** Registers the suite `name` with node:test. `open` gives a state that has counted nothing. */
export function exerciseThrottle(
  name: string,
  open: (terms: ThrottleTerms) => OpenThrottle | Promise<OpenThrottle>,
  { countsUnknownTurns = false }: ThrottleCapabilities = {},
): void {
  let serial = 0
  function some(count: number, more: Partial<ThrottleRequest> = {}): readonly ThrottleRequest[] {
    return Array.from({ length: count }, () => {
      serial += 1
      return { id: String(serial).padStart(6, '0'), module: 'shop', ...more }
    })
  }
  async function pass(state: ThrottleState, requests: readonly ThrottleRequest[]) {
    const passed = await state.pass('acme', requests)
    assert.ok(passed !== undefined)
    return passed
  }

  /** Takes turns; the generation of the queues, if there is one, is left out. */
  async function turn(state: ThrottleState, requests: readonly ThrottleRequest[]) {
    const turns = await state.turn('acme', requests)
    return turns.map(({ passed, at }) => ({ passed, at }))
  }

  describe(name, () => {
    it('passes as many as a window admits, and gives the others places in the order of arrival', async () => {
      const { state, now } = await open(perTenant('2/10s'))
      const start = now()
      const { places, use = [] } = await pass(state, some(5))
      const later = start + 10 * second + marginMs
      assert.deepEqual(
        places.map(({ at, waits }) => [at - start, waits]),
        [
          [0, false],
          [0, false],
          [later - start, true],
          [later - start, true],
          [2 * (later - start), true],
        ],
      )
      assert.ok(places.slice(2).every(({ behind }) => behind === 'tenant'))
      assert.deepEqual(
        use.map(({ of, max, used, remaining, freesAt }) => ({ of, max, used, remaining, freesAt })),
        [{ of: 'tenant', max: 2, used: 2, remaining: 0, freesAt: later }],
      )
      const next = await pass(state, some(1, { module: 'other' }))
      assert.equal(next.places[0]!.at, 2 * later - start, 'the tenant counts all of its modules')
    })

    it('has no limits for a tenant without windows', async () => {
      const { state } = await open(perTenant('2/10s'))
      assert.equal(await state.pass('other', some(3)), undefined)
      assert.deepEqual(await state.use('other', 'shop'), [])
    })

    it('lets no entry of a module overtake another, and other modules pass meanwhile', async () => {
      const { state, now } = await open({ tenant: [], module: [parseWindow('1/10s')], marginMs })
      await pass(state, some(3))
      const [own] = (await pass(state, some(1))).places
      assert.deepEqual([own!.waits, own!.behind], [true, 'module'])
      const [other] = (await pass(state, some(1, { module: 'other' }))).places
      assert.deepEqual([other!.waits, other!.at], [false, now()])
    })

    it('passes critical requests at once and counts them', async () => {
      const { state, now } = await open(perTenant('2/10s'))
      const { places } = await pass(state, some(4, { isCritical: true }))
      assert.ok(places.every(({ at, waits }) => !waits && at === now()))
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 4)
      assert.equal((await pass(state, some(1))).places[0]!.waits, true)
    })

    it('takes requests back that were not accepted: their places are free', async () => {
      const { state } = await open(perTenant('2/10s'))
      const requests = some(4)
      const { places } = await pass(state, requests)
      await state.takeBack(
        'acme',
        requests.map((each, index) => ({ ...each, place: places[index]! })),
      )
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 0)
      const again = await pass(state, some(4))
      assert.deepEqual(
        again.places.map(({ waits }) => waits),
        [false, false, true, true],
      )
      const behind = some(1)
      await pass(state, behind)
      assert.equal(await state.placeOf('acme', requests[3]!), undefined)
      assert.notEqual(await state.placeOf('acme', behind[0]!), undefined)
    })

    it('takes the turn of an entry when its place has come', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const [, waiting] = some(2)
      const [, place] = (await pass(state, [some(1)[0]!, waiting!])).places
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: false, at: place!.at }])
      await until(place!.at)
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at: place!.at }])
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 1)
    })

    if (countsUnknownTurns) {
      it('counts the turn of an entry that is in no queue, which waits before all others if it is not admitted', async () => {
        const { state, now } = await open(perTenant('2/10s'))
        const start = now()
        assert.deepEqual(await turn(state, some(1)), [{ passed: true, at: start }])
        const [, waiting, behind, unknown] = some(4)
        const { places } = await pass(state, [some(1)[0]!, waiting!, behind!])
        assert.deepEqual(
          places.map(({ waits }) => waits),
          [false, true, true],
          'the turn has counted',
        )
        assert.deepEqual(await turn(state, [unknown!]), [{ passed: false, at: places[1]!.at }])
        assert.deepEqual(
          await Promise.all([unknown!, waiting!, behind!].map((each) => state.placeOf('acme', each))),
          [places[1]!.at, places[1]!.at, places[1]!.at + 10 * second + marginMs],
        )
      })

      it('leaves the others their places when a turn is asked of an entry that has left', async () => {
        const { state } = await open(perTenant('1/10s'))
        const [first, ended, behind, last] = some(4)
        const { places } = await pass(state, [first!, ended!, behind!, last!])
        await state.leave('acme', [ended!])
        const [turn] = await state.turn('acme', [ended!])
        assert.equal(turn!.passed, false)
        const left = () => Promise.all([ended!, behind!, last!].map((each) => state.placeOf('acme', each)))
        assert.deepEqual(await left(), [undefined, places[1]!.at, places[2]!.at])
        await state.leave('acme', [ended!])
        assert.deepEqual(await left(), [undefined, places[1]!.at, places[2]!.at])
        const [again] = (await pass(state, [ended!])).places
        assert.deepEqual([again!.at, again!.waits], [places[3]!.at, true], 'it may come again')
      })

      it('gives an entry that had its turn the same turn again', async () => {
        const { state, until } = await open(perTenant('1/10s'))
        const [, waiting] = some(2)
        const [, place] = (await pass(state, [some(1)[0]!, waiting!])).places
        await until(place!.at + 3)
        assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at: place!.at }])
        assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at: place!.at }])
        assert.equal((await state.use('acme', 'shop'))[0]!.used, 1)
      })

      it('gives an entry that has a place the same place again', async () => {
        const { state } = await open(perTenant('1/10s'))
        const [, waiting] = some(2)
        const [, place] = (await pass(state, [some(1)[0]!, waiting!])).places
        const again = await pass(state, [waiting!])
        assert.deepEqual([again.places[0]!.at, again.places[0]!.waits], [place!.at, true])
        await state.leave('acme', [waiting!])
        assert.equal(await state.placeOf('acme', waiting!), undefined)
      })
    } else {
      it('passes the turn of an entry that is in no queue, and counts nothing', async () => {
        const { state, now } = await open(perTenant('1/10s'))
        await pass(state, some(2))
        assert.deepEqual(await turn(state, some(1)), [{ passed: true, at: now() }])
        assert.equal((await state.use('acme', 'shop'))[0]!.used, 1)
      })
    }

    it('gives an entry that is put back the same turn again, in front of those behind it', async () => {
      const { state, now, until } = await open(perTenant('1/10s'))
      const [, waiting, behind] = some(3)
      const { places } = await pass(state, [some(1)[0]!, waiting!, behind!])
      const at = places[1]!.at
      await until(at)
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at }])
      await state.putBack('acme', [{ ...waiting!, at }])
      await state.putBack('acme', [{ ...waiting!, at }])
      assert.equal(await state.placeOf('acme', waiting!), at)
      assert.equal(await state.placeOf('acme', behind!), places[2]!.at, 'it counts once')
      await until(now() + second)
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at }])
      assert.equal(await state.placeOf('acme', waiting!), undefined)
      assert.equal(await state.placeOf('acme', behind!), places[2]!.at)
    })

    it('gives an entry that is put back its own place, and leaves the others theirs, however their ids sort', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const [behind, waiting] = some(2)
      const { places } = await pass(state, [some(1)[0]!, waiting!, behind!])
      const at = places[1]!.at
      await until(at)
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at }])
      await state.putBack('acme', [{ ...waiting!, at }])
      assert.deepEqual(await turn(state, [behind!]), [{ passed: false, at: places[2]!.at }])
      assert.equal(await state.placeOf('acme', waiting!), at)
    })

    it('puts a second turn of an entry back when its first one is long over', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const [, waiting, behind] = some(3)
      const { places } = await pass(state, [some(1)[0]!, waiting!, behind!])
      const at = places[1]!.at
      await until(at)
      await turn(state, [waiting!])
      await state.putBack('acme', [{ ...waiting!, at }])
      await until(at + 9 * second)
      assert.deepEqual(await turn(state, [waiting!]), [{ passed: true, at }])
      await until(places[2]!.at)
      assert.deepEqual(await turn(state, [behind!]), [{ passed: true, at: places[2]!.at }])
      await state.putBack('acme', [{ ...waiting!, at }])
      assert.equal(await state.placeOf('acme', waiting!), at)
    })

    it('keeps the turn of an entry counted that was put back and leaves because its turn is on record', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const [, waiting, behind] = some(3)
      const { places } = await pass(state, [some(1)[0]!, waiting!, behind!])
      const at = places[1]!.at
      await until(at)
      await turn(state, [waiting!])
      await state.putBack('acme', [{ ...waiting!, at }])
      await state.leave('acme', [{ ...waiting!, isCounted: true }])
      assert.equal(await state.placeOf('acme', waiting!), undefined)
      assert.equal(await state.placeOf('acme', behind!), places[2]!.at)
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 1)
    })

    it('moves those behind up when an entry leaves, never to a later place, and promotes them at their new one', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const promoted: string[] = []
      await state.start(async (tenant, ids) => {
        assert.equal(tenant, 'acme')
        promoted.push(...ids)
      })
      const [first, second, third, fourth] = some(4)
      const { places } = await pass(state, [first!, second!, third!, fourth!])
      await state.leave('acme', [second!])
      assert.deepEqual(await Promise.all([third!, fourth!].map((each) => state.placeOf('acme', each))), [
        places[1]!.at,
        places[2]!.at,
      ])
      await until(places[1]!.at)
      assert.deepEqual(promoted, [third!.id])
      await state.leave('acme', [some(1)[0]!])
      assert.equal(await state.placeOf('acme', fourth!), places[2]!.at)
      await state.stop()
    })

    it('promotes those behind an entry that never takes its turn: the process that accepted it has died', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const promoted: string[] = []
      await state.start(async (_, ids) => void promoted.push(...ids))
      const [first, abandoned, third, fourth, fifth] = some(5)
      const { places } = await pass(state, [first!, abandoned!, third!, fourth!, fifth!])
      await until(places[1]!.at + second)
      await state.leave('acme', [fourth!])
      await until(places[2]!.at)
      await turn(state, [third!])
      await until(places[3]!.at)
      assert.deepEqual(promoted, [fifth!.id])
      await state.stop()
    })

    it('promotes those who moved up behind an entry that will never take its turn: the process that accepted it has died', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const promoted: string[] = []
      await state.start(async (_, ids) => void promoted.push(...ids))
      const [first, abandoned, third, fourth] = some(4)
      const { places } = await pass(state, [first!, abandoned!, third!, fourth!])
      await state.leave('acme', [third!])
      await until(places[1]!.at + second)
      await until(places[2]!.at)
      assert.deepEqual(promoted, [fourth!.id])
      await state.stop()
    })

    it('promotes those behind an entry that should have ended before its place: the process that accepted it has died', async () => {
      const { state, until } = await open(perTenant('1/10s'))
      const promoted: string[] = []
      await state.start(async (_, ids) => void promoted.push(...ids))
      const [first, third, fourth, fifth] = some(4)
      const opened = await pass(state, [first!])
      const [abandoned] = some(1, { expiresAt: opened.places[0]!.at + 5 * second })
      const { places } = await pass(state, [abandoned!, third!, fourth!, fifth!])
      await state.leave('acme', [third!])
      await until(places[1]!.at)
      assert.deepEqual(promoted, [fourth!.id])
      await until(places[2]!.at)
      assert.deepEqual(promoted, [fourth!.id, fifth!.id])
      await state.stop()
    })

    it('previews the place of a request and counts nothing', async () => {
      const { state } = await open(perTenant('1/10s'))
      assert.equal((await state.preview('acme', 'shop'))?.waits, false)
      const { places } = await pass(state, some(2))
      const preview = await state.preview('acme', 'shop')
      assert.deepEqual([preview?.waits, preview?.use[0]?.used], [true, 1])
      assert.equal((await pass(state, some(1))).places[0]!.at, preview!.at)
      assert.ok(preview!.at > places[1]!.at)
    })

    it('has no window over its maximum, whatever is asked', async () => {
      const windows = ['3/1s', '8/5s'].map(parseWindow)
      const { state, now, until } = await open({ tenant: windows, module: [parseWindow('2/1s')], marginMs })
      const passedAt: number[] = []
      const waiting: { readonly request: ThrottleRequest; at: number }[] = []
      // A fixed sequence of steps and sizes: a random one would add nothing that a seed does not.
      for (let step = 0; step < 60; step += 1) {
        await until(now() + ((step * 37) % 400))
        const requests = some(1 + (step % 3), { module: step % 2 === 0 ? 'shop' : 'other' })
        const { places } = await pass(state, requests)
        for (const [index, { at, waits }] of places.entries())
          if (waits) waiting.push({ request: requests[index]!, at })
          else passedAt.push(at)
        if (step % 5 === 0 && waiting.length > 0) await state.leave('acme', [waiting.pop()!.request])
        for (const each of waiting.splice(0)) {
          const [turn] = await state.turn('acme', [each.request])
          if (turn!.passed) passedAt.push(turn!.at)
          else waiting.push({ request: each.request, at: turn!.at })
          assert.ok(turn!.at <= each.at, 'not later than promised')
        }
      }
      passedAt.sort((a, b) => a - b)
      for (const { max, windowMs, text } of windows)
        for (const [index, at] of passedAt.entries())
          assert.ok(
            passedAt[index + max] === undefined || passedAt[index + max]! - at >= windowMs,
            `${text}: ${max + 1} within ${passedAt[index + max]! - at} ms`,
          )
      assert.ok(passedAt.length > 20, `${passedAt.length} have passed`)
    })
  })
}
