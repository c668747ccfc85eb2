/** The suite of the state of an account, on the embedded one and on a model of one that several processes share. */

import { type AccountTerms, exerciseAccounts } from '../../../src/conformance/accounts.ts'
import {
  type AccountOptions,
  type AccountPolicy,
  PooledAccount,
} from '../../../src/delivery/accounts/account.ts'
import { defaultBreakerPolicy } from '../../../src/delivery/accounts/breaker.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { SharedAccount } from './slot-account.ts'

const optionsOf = ({ windows, concurrencyMax }: AccountTerms): AccountOptions => ({
  account: { id: 'a', options: {} },
  windows,
  rate: windows.map(({ text }) => text).join(', '),
  concurrencyMax,
})

const policyOf = ({ breaker }: AccountTerms): AccountPolicy => ({
  marginMs: 0,
  breaker: { ...defaultBreakerPolicy, ...breaker, of: 1_000 },
  adaptive: undefined,
  keep: undefined,
})

exerciseAccounts(
  'An account of one process',
  (terms) => {
    const clock = createVirtualClock(1_000_000)
    return {
      join: () => new PooledAccount(optionsOf(terms), policyOf(terms)),
      now: clock.now,
      pass: (ms) => clock.runUntil(clock.now() + ms),
    }
  },
  { newsMs: 0, usedMin: 0.99, isShared: false },
)

exerciseAccounts(
  'A model of an account of several processes',
  (terms) => {
    const clock = createVirtualClock(1_000_000)
    const shared = new SharedAccount(optionsOf(terms), policyOf(terms), { clock, answerMs: 2 })
    return {
      join: () => shared.join(),
      now: clock.now,
      pass: (ms) => clock.runUntil(clock.now() + ms),
    }
  },
  { newsMs: 30, usedMin: 0.9, isShared: true },
)
