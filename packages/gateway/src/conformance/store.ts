/**
 * The conformance suite of the store port: `exerciseStore` runs it against any store that `open` gives. It asks only
 * what the port promises, not how a store works; faults of an engine (kills, full disks) are tested with the engine.
 */
import { describe, it } from 'node:test'
import type { Clock, Store } from '../ports.ts'
import { accounts } from './store/accounts.ts'
import { commits } from './store/commits.ts'
import { contents } from './store/contents.ts'
import { countedNotifications } from './store/counted.ts'
import { delivered } from './store/delivered.ts'
import { digests } from './store/digests.ts'
import { claims } from './store/due-cursor.ts'
import { erasures } from './store/erasures.ts'
import { feedback } from './store/feedback.ts'
import { intake } from './store/intake.ts'
import { jobs } from './store/jobs.ts'
import { listFilters } from './store/list-filters.ts'
import { lookups } from './store/lookups.ts'
import { outbox } from './store/outbox.ts'
import { questions } from './store/questions.ts'
import { recipients } from './store/recipients.ts'
import { epoch, stillClock } from './store/sample.ts'
import { sendRights } from './store/send-rights.ts'
import type { Context, StoreCapabilities, Test } from './store/suite.ts'

export type { StoreCapabilities } from './store/suite.ts'

/** Opens a store that is empty the first time. `place` names it; the same name is the same store. */
export type OpenStore = (options: {
  readonly clock: Clock
  readonly place: string
  /** True for a store that keeps changes of state in an outbox. */
  readonly isLogged: boolean
}) => Promise<Store>

/** Registers the suite `name` with node:test. */
export function exerciseStore(name: string, open: OpenStore, capabilities: StoreCapabilities): void {
  let places = 0
  /** Opens one store for the test and closes it after. */
  function register(
    title: string,
    body: (store: Store, context: Context) => Promise<void>,
    isLogged: boolean,
  ): void {
    it(title, async () => {
      places += 1
      const place = `place-${places}`
      const clock = stillClock(epoch)
      let store = await open({ clock, place, isLogged })
      const context: Context = {
        clock,
        async reopen() {
          await store.close()
          store = await open({ clock, place, isLogged })
          return store
        },
      }
      try {
        await body(store, context)
      } finally {
        await store.close()
      }
    })
  }

  const test: Test = (title, body) => register(title, body, false)
  const testLogged: Test = (title, body) => register(title, body, true)

  describe(name, () => {
    describe('commit', () => commits(test, capabilities))
    describe('lost answers', () => lookups(test))
    describe('accounts', () => accounts(test))
    describe('list filters', () => listFilters(test))
    describe('digests', () => digests(test))
    describe('contents', () => contents(test, capabilities))
    describe('jobs', () => jobs(test, capabilities))
    describe('rights to send', () => sendRights(test, capabilities))
    describe('deliveries', () => delivered(test))
    describe('recipients', () => recipients(test))
    describe('erasures', () => erasures(test, capabilities))
    describe('feedback', () => feedback(test, capabilities))
    if (capabilities.keepsOutbox !== false) describe('outbox', () => outbox(testLogged, capabilities))
    describe('intake', () => intake(test, capabilities))
    describe('due cursor', () => claims(test, capabilities))
    describe('queries', () => questions(test, capabilities))
    describe('counted notifications', () => countedNotifications(test))
  })
}
