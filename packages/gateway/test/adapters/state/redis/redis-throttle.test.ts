/** The limits of tenants and modules in Redis: the suite of the port, on one server and on a cluster. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { unavailable } from '../../../../src/adapters/state/redis/redis-answers.ts'
import { exerciseThrottle } from '../../../../src/conformance/throttle.ts'
import type { ThrottlePlace } from '../../../../src/ports/tenants.ts'
import { engines, openAdmin } from './open.ts'
import { openThrottle as open } from './open-throttle.ts'

const marginMs = 20
const second = 1_000

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    exerciseThrottle('Throttle queues in Redis', (terms) => open(engine, terms), { countsUnknownTurns: true })

    it('counts over all processes, and lets one take the turns of another', async () => {
      const { state, openState, until } = open(engine, {
        tenant: [parseWindow('3/10s')],
        module: [],
        marginMs,
      })
      const other = openState()
      const ids = ['a', 'b', 'c', 'd'].map((id) => ({ id, module: 'shop' }))
      const first = await state.pass('acme', ids.slice(0, 2))
      const rest = await other.pass('acme', ids.slice(2))
      assert.deepEqual(
        [...first!.places, ...rest!.places].map(({ waits }) => waits),
        [false, false, false, true],
      )
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 3)
      await until(rest!.places[1]!.at)
      const [turn] = await state.turn('acme', [ids[3]!])
      assert.deepEqual([turn!.passed, turn!.at], [true, rest!.places[1]!.at])
    })

    it('keeps the place of a notification that two processes decide at once until neither needs it', async () => {
      const { state, openState } = open(engine, { tenant: [parseWindow('1/10s')], module: [], marginMs })
      const other = openState()
      const [, waiting] = ['a', 'b'].map((id) => ({ id, module: 'shop' }))
      await state.pass('acme', [{ id: 'a', module: 'shop' }])
      const [first] = (await state.pass('acme', [waiting!]))!.places
      const [repeated] = (await other.pass('acme', [waiting!]))!.places
      assert.equal(repeated!.at, first!.at)
      await other.takeBack('acme', [{ ...waiting!, place: repeated! }])
      assert.equal(await state.placeOf('acme', waiting!), first!.at)
      await other.takeBack('acme', [{ ...waiting!, place: repeated! }])
      assert.equal(await state.placeOf('acme', waiting!), first!.at, 'the same answer may come twice')
      await other.pass('acme', [waiting!])
      await state.takeBack('acme', [{ ...waiting!, place: first! }])
      assert.equal(await state.placeOf('acme', waiting!), first!.at)
      await other.takeBack('acme', [{ ...waiting!, place: repeated! }])
      assert.equal(await state.placeOf('acme', waiting!), undefined)
    })

    it('promotes an entry that was decided once more at a later place and moves back to its first one', async () => {
      const { state, until } = open(engine, { tenant: [parseWindow('1/10s')], module: [], marginMs })
      const promoted: string[] = []
      await state.start(async (_, ids) => void promoted.push(...ids))
      const [passed, waiting, restored] = ['a', 'b', 'unknown'].map((id) => ({ id, module: 'shop' }))
      await state.pass('acme', [passed!])
      const [first] = (await state.pass('acme', [waiting!]))!.places
      // It stands before all others, as nothing is known of it.
      await state.turn('acme', [restored!])
      const [again] = (await state.pass('acme', [waiting!]))!.places
      assert.ok(again!.at > first!.at, 'its place is later by now')
      await state.leave('acme', [restored!])
      assert.equal(await state.placeOf('acme', waiting!), first!.at)
      await until(first!.at + 1)
      assert.deepEqual(promoted, ['b'], 'the record says the later instant')
    })

    it('keeps the place of a notification that is on record, whoever decides it once more', async () => {
      const { state, openState, until } = open(engine, {
        tenant: [parseWindow('1/10s')],
        module: [],
        marginMs,
      })
      const other = openState()
      const [, waiting] = ['a', 'b'].map((id) => ({ id, module: 'shop' }))
      await state.pass('acme', [{ id: 'a', module: 'shop' }])
      const [place] = (await state.pass('acme', [waiting!]))!.places
      await until(1_000_000 + second)
      assert.equal((await state.turn('acme', [waiting!]))[0]!.passed, false)
      const [repeated] = (await other.pass('acme', [waiting!]))!.places
      await other.takeBack('acme', [{ ...waiting!, place: repeated! }])
      await state.takeBack('acme', [{ ...waiting!, place: place! }])
      assert.equal(await state.placeOf('acme', waiting!), place!.at)
    })

    for (const [loss, isWorked] of [
      ['an answer that is lost', true],
      ['a question that is not worked', false],
    ] as const)
      it(`promotes behind ${loss}: nobody would ask for the entry again`, async () => {
        const { openState, now, until } = open(engine, {
          tenant: [parseWindow('2/10s')],
          module: [],
          marginMs,
        })
        let losses = 0
        const state = openState(undefined, undefined, (redis) => ({
          ...redis,
          async ask(...question) {
            const isPromotion = question[2][0] === 'promoted'
            if (isPromotion) losses += 1
            if (!isPromotion || losses !== 1) return redis.ask(...question)
            if (isWorked) await redis.ask(...question)
            throw unavailable('the test', 'lost')
          },
        }))
        const promoted: string[] = []
        await state.start(async (_, ids) => void promoted.push(...ids))
        const entries = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, module: 'shop' }))
        const { places } = (await state.pass('acme', entries))!
        const [, , c, d] = entries
        await state.leave('acme', [c!, d!])
        assert.equal(await state.placeOf('acme', entries[4]!), places[2]!.at, 'the last one has moved up')
        await until(places[2]!.at)
        await until(now() + 3 * second)
        await state.stop()
        assert.ok(losses > 0)
        assert.deepEqual(promoted, ['e'])
      })

    for (const kill of ['before the place comes', 'behind the question that takes the entry'] as const)
      it(`promotes what a process was to promote that is killed ${kill}`, async () => {
        const { state, openState, record, until } = open(engine, {
          tenant: [parseWindow('2/10s')],
          module: [],
          marginMs,
        })
        const killed = openState()
        const promoted: string[] = []
        await state.start(async (_, ids) => void promoted.push(...ids))
        await killed.start(async () => {})
        const entries = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, module: 'shop' }))
        const { places } = (await killed.pass('acme', entries))!
        const [, , c, d, e] = entries
        const [, , { at }, , { at: dueAt }] = places as [
          unknown,
          unknown,
          ThrottlePlace,
          unknown,
          ThrottlePlace,
        ]
        record.waits.set('e', { ...e!, at: dueAt, dueAt })
        await killed.leave('acme', [c!, d!])
        if (kill !== 'before the place comes') await until(at)
        await killed.stop()
        state.noteGone(['killed'])
        state.noteGone(['killed'])
        await until(at + second)
        await state.stop()
        assert.deepEqual(promoted, ['e'])
      })

    for (const [rate, leaves] of [
      ['10/10s', [0, 0, 0]],
      ['unlimited', [0, 0, 0]],
      ['1/10s', [1, 2, 3]],
    ] as const)
      it(`gives those who wait places of a rate that is ${rate} when a process starts`, async () => {
        const { state, openState, record, now, until } = open(engine, {
          tenant: [parseWindow('2/10s')],
          module: [],
          marginMs,
        })
        await state.start(async () => {})
        const entries = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ id, module: 'shop' }))
        const { places } = (await state.pass('acme', entries))!
        for (const [index, { at, waits }] of places.entries()) {
          const each = entries[index]!
          if (waits) record.waits.set(each.id, { ...each, at, dueAt: at })
          else record.passed.set(each.id, { ...each, at, isCritical: false })
        }
        await until(now() + second)
        const begun = now()
        const tenant = rate === 'unlimited' ? [] : [parseWindow(rate)]
        const changed = openState({ tenant, module: [] })
        const promoted: string[] = []
        await changed.start(async (_, ids) => void promoted.push(...ids))
        const waiting = entries.slice(2)
        const found = await Promise.all(waiting.map((each) => changed.placeOf('acme', each)))
        const [first] = places
        assert.deepEqual(
          found,
          leaves.map((windows) => (windows === 0 ? begun : first!.at + windows * (10 * second + marginMs))),
        )
        assert.deepEqual(promoted, leaves[0] === 0 ? ['c', 'd', 'e'] : [])
        const again = openState({ tenant, module: [] })
        await again.start(async () => {})
        assert.equal(record.generation, 2, 'it is filled once for the rate')
        await Promise.all([state, changed, again].map((each) => each.stop()))
      })

    it('passes one that a raised rate admits, where the earlier rate had no instant free for a window', async () => {
      const { state, openState, now } = open(engine, { tenant: [parseWindow('2/10s')], module: [], marginMs })
      const entries = ['a', 'b', 'c'].map((id) => ({ id, module: 'shop' }))
      await state.pass('acme', entries.slice(0, 2))
      const [full] = await state.use('acme', 'shop')
      assert.equal(full!.freesAt, now() + 10 * second + marginMs)
      const raised = openState({ tenant: [parseWindow('3/10s')], module: [] })
      await raised.start(async () => {})
      assert.equal((await raised.use('acme', 'shop'))[0]!.freesAt, now())
      const [place] = (await raised.pass('acme', entries.slice(2)))!.places
      assert.deepEqual([place!.waits, place!.at], [false, now()])
      // One that has the earlier rate yet finds nothing free, and says so to nobody else.
      assert.equal((await state.preview('acme', 'shop'))!.waits, true)
      const higher = openState({ tenant: [parseWindow('4/10s')], module: [] })
      assert.equal((await higher.preview('acme', 'shop'))!.waits, false)
    })

    it('are filled again when the record has a later generation, of a filler that was overtaken', async () => {
      const { state, openState, record } = open(engine, {
        tenant: [parseWindow('3/10s')],
        module: [],
        marginMs,
      })
      const [first, second, third] = ['a', 'b', 'c'].map((id) => ({ id, module: 'shop' }))
      await state.pass('acme', [first!])
      record.passed.set('a', { ...first!, at: 1_000_000, isCritical: false })
      const overtaken = await record.nextThrottleGeneration('acme')
      const refused = (await state.pass('acme', [second!]))!.places[0]!
      assert.ok(refused.generation! < overtaken, 'the store refuses what is decided in the queues')
      state.expect('acme', overtaken)
      const place = (await state.pass('acme', [third!]))!.places[0]!
      assert.equal(place.generation, record.generation)
      // The others meet the queues that were filled, once.
      const other = openState()
      other.expect('acme', overtaken)
      assert.equal((await other.use('acme', 'shop'))[0]!.used, 2)
      assert.equal(record.generation, overtaken + 1)
    })

    it('refuses the fill of an earlier loss: what was counted since is not in it', async (t) => {
      const { state, openState, record, key } = open(engine, {
        tenant: [parseWindow('2/10s')],
        module: [],
        marginMs,
      })
      const admin = await openAdmin(engine)
      t.after(admin.close)
      const [hasRead, mayFill] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      const slow = openState(undefined, {
        ...record,
        async entries(...asked) {
          const read = await record.entries(...asked)
          hasRead.resolve()
          await mayFill.promise
          return read
        },
      })
      const late = slow.pass('acme', [{ id: 'b', module: 'shop' }])
      await hasRead.promise
      await admin.remove(key)
      const first = (await state.pass('acme', [{ id: 'a', module: 'shop' }]))!.places[0]!
      record.passed.set('a', { id: 'a', module: 'shop', at: first.at, isCritical: false })
      await admin.remove(key)
      mayFill.resolve()
      const second = (await late)!.places[0]!
      assert.equal((await state.use('acme', 'shop'))[0]!.used, 2)
      assert.deepEqual([first.generation, second.generation, record.generation], [2, 3, 3])
    })

    it('drops a value that one process has to fill for wider windows: the store refuses its generation from then on', async () => {
      const { state, openState, record, now, until } = open(engine, {
        tenant: [parseWindow('2/10s')],
        module: [],
        marginMs,
      })
      await state.pass('acme', [{ id: 'a', module: 'shop' }])
      const wider = openState(
        { tenant: [parseWindow('5/60s')], module: [] },
        {
          ...record,
          async entries() {
            // The next generation has begun, and its fill never comes.
            throw new Error('gone')
          },
        },
      )
      await assert.rejects(async () => wider.pass('acme', [{ id: 'b', module: 'shop' }]), /gone/)
      const passing = state.pass('acme', [{ id: 'c', module: 'shop' }])
      // Until then the value is the other one's to fill.
      await until(now() + 3 * second)
      assert.equal((await passing)!.places[0]!.generation, record.generation)
    })

    it('fills wider windows from the record: they count instants that were forgotten', async () => {
      const { state, openState, record, now, until } = open(engine, {
        tenant: [parseWindow('2/10s')],
        module: [],
        marginMs,
      })
      const pass = async (id: string, on = state) => {
        const places = (await on.pass('acme', [{ id, module: 'shop' }]))!.places
        if (!places[0]!.waits)
          record.passed.set(id, { id, module: 'shop', at: places[0]!.at, isCritical: false })
        return places[0]!
      }
      for (const id of ['a', 'b', 'c', 'd']) {
        assert.equal((await pass(id)).waits, false)
        await until(now() + 11 * second)
      }
      const wider = openState({ tenant: [parseWindow('5/60s')], module: [] })
      assert.equal((await wider.use('acme', 'shop'))[0]!.used, 4)
      assert.equal((await pass('e', wider)).waits, false)
      assert.equal((await pass('f', wider)).waits, true)
    })
  })
