/** Servers that count the calls of accounts, of which a newer one is heard. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { AccountBirths } from '../../src/composition/account-births.ts'
import { defaultBreakerPolicy } from '../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts } from '../../src/delivery/accounts/fleet-accounts.ts'
import type { AccountSlots } from '../../src/ports/account-slots.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const startsAt = 1_000_000
const slotMs = 20

/** An account of 20 calls a second whose server grants what is wanted; `bornAt` names its life. */
function accountOf() {
  const clock = createVirtualClock(startsAt)
  const server = { bornAt: 1, answerMs: 2 }
  const news = { read: 0 }
  const slots: AccountSlots = {
    async ask({ asks }) {
      await new Promise<void>((resolve) => clock.at(clock.now() + server.answerMs, resolve))
      const now = clock.now()
      return {
        slot: Math.floor(now / slotMs),
        restMs: slotMs - (now % slotMs),
        bornAt: server.bornAt,
        isNewMember: false,
        lastVerdict: 0,
        lastResults: 0,
        grants: asks.map(({ want, busy }) => ({
          tokens: want,
          isProbe: false,
          shortage: 'none',
          busy: busy + want,
        })),
        verdicts: [],
        results: [],
        uses: [],
        long: [],
      }
    },
  }
  const births = new AccountBirths(async () => {
    news.read += 1
  })
  const accounts = createFleetAccounts({
    slots: births.followed(slots),
    clock,
    member: 'm1',
    isJudge: () => true,
  })
  const account = accounts.ofPool('email')(
    {
      account: { id: 'a', options: {} },
      windows: [{ max: 20, windowMs: 1_000, text: '20/s' }],
      rate: '20/s',
      concurrencyMax: 10,
    },
    {
      marginMs: 20,
      breaker: { ...defaultBreakerPolicy, of: 1_000 },
      adaptive: undefined,
      keep: undefined,
    },
  )
  const pass = (ms: number) => clock.runUntil(clock.now() + ms)
  return {
    account,
    births,
    clock,
    news,
    server,
    pass,
    /** Asks until the account has a token in hand. */
    async granted() {
      for (let tries = 0; tries < 20; tries += 1) {
        if (account.freeAt(clock.now(), 0, false) === clock.now()) return
        await pass(1)
      }
      assert.fail('no token came')
    },
  }
}

describe('tokens of a server of which a newer life is heard', () => {
  it('are not good any more, and neither is a call that has one and is not written', async () => {
    const { account, births, clock, granted } = accountOf()
    await granted()
    const takenAt = account.take(clock.now())
    assert.equal(account.freeAt(clock.now(), 0, false), clock.now(), 'another token is in hand')
    births.noteNewer()
    assert.notEqual(account.freeAt(clock.now(), 0, false), clock.now())
    assert.equal(account.renew(takenAt, clock.now()), undefined)
  })

  it('do not come by an answer that was under way', async () => {
    const { account, births, clock, pass, server } = accountOf()
    await pass(slotMs)
    server.answerMs = 4
    account.freeAt(clock.now(), 0, false)
    await pass(1)
    births.noteNewer()
    await pass(4)
    assert.notEqual(account.freeAt(clock.now(), 0, false), clock.now())
  })

  it('come again from the newer one', async () => {
    const { births, granted, pass } = accountOf()
    await granted()
    births.noteNewer()
    await pass(100)
    await granted()
  })

  it('have the newest registrations read where the state has begun anew', async () => {
    const { granted, news, pass, server } = accountOf()
    await granted()
    assert.equal(news.read, 0, 'the first answer is no loss')
    server.bornAt = 2
    await pass(2_000)
    assert.equal(news.read, 1)
  })
})
