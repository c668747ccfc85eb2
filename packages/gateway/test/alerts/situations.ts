/**
 * Situations in which an alert must fire, one or more for each alert, and two in which none may. Each begins with a
 * gateway in ordinary traffic.
 */

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Live, LiveOptions } from './live.ts'

export interface Situation {
  readonly name: string
  /** The only alert that may fire, and does; undefined where none may. */
  readonly alert: string | undefined
  readonly options?: Partial<LiveOptions>
  /** Brings the situation about. One that must be kept up goes on while `isOn()`. */
  cause(live: Live, isOn: () => boolean): Promise<void>
}

/** No engine listens there. */
const closedPort = 9

const times = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)

/** Sends 60 marketing messages, and complains about half of them. */
async function complain({ site, post }: Live): Promise<void> {
  const sent = await Promise.all(times(60).map(() => post('email', { category: 'marketing' })))
  await sleep(3_000)
  const at = new Date().toISOString()
  const events = sent.slice(0, 30).map((answer) => ({
    ...{ type: 'complaint', at },
    notificationId: answer.json<{ readonly notificationId: string }>().notificationId,
  }))
  await site.call('POST', '/api/v1/feedback', events)
}

export const situations: readonly Situation[] = [
  {
    name: 'the process is killed',
    alert: 'SluiceDown',
    cause: ({ site }) => site.kill(),
  },
  {
    name: 'bursts of three seconds of the rate leave late',
    alert: 'SluiceLatenessBudgetBurn',
    async cause({ post }, isOn) {
      while (isOn()) {
        await Promise.all(times(150).map(() => post('sms')))
        await sleep(4_000)
      }
    },
  },
  {
    name: 'a digest and the recipient of its item are damaged in the store',
    alert: 'SluiceUnaccounted',
    options: {
      policy: {
        digests: [{ name: 'few', for: { category: 'activity' }, window: '2h', template: 'activity-digest' }],
      },
    },
    async cause({ site, post }) {
      const recipient = { id: 'eve', email: 'eve@example.com' }
      await site.call('PUT', '/api/v1/recipients/eve', { optOuts: [{ category: 'marketing' }] })
      await post('email', { recipient, category: 'activity' })
      await site.terminate()
      const db = new DatabaseSync(join(site.folder, 'data/sluice.db'))
      db.exec(`DELETE FROM digests; UPDATE recipients SET body = replace(body, 'marketing', 'narketing')`)
      db.close()
      await site.start()
    },
  },
  {
    name: 'an account answers 429 below its configured rate',
    alert: 'SluiceAccountOverLimit',
    async cause({ sandbox, post }) {
      await sandbox.behave({ rates: [{ max: 5, windowMs: 1_000 }], retryAfter: '1' }, 'sms-1')
      await Promise.all(times(10).map(() => post('sms')))
    },
  },
  {
    name: 'the breaker of the only account is open',
    alert: 'SluicePoolOut',
    async cause({ sandbox, post }) {
      await sandbox.behave({ odds: { fail: 1 } }, 'sms-1')
      await Promise.all(times(12).map(() => post('sms')))
    },
  },
  {
    name: 'an operator holds four of five accounts, and the breaker of the fifth is open',
    alert: 'SluicePoolOut',
    async cause({ site, sandbox, post }) {
      await sandbox.behave({ odds: { fail: 1 } }, 'push-5')
      const hold = { until: new Date(Date.now() + 3_600_000).toISOString(), reason: 'maintenance' }
      for (const number of [1, 2, 3, 4])
        await site.call('PUT', `/api/v1/pools/push/push-${number}/hold`, hold)
      await Promise.all(times(12).map(() => post('push')))
    },
  },
  {
    name: 'one of five accounts keeps failing',
    alert: 'SluicePoolDegraded',
    async cause({ sandbox, post }, isOn) {
      await sandbox.behave({ odds: { fail: 1 } }, 'push-3')
      while (isOn()) {
        await Promise.all(times(10).map(() => post('push')))
        await sleep(200)
      }
    },
  },
  {
    name: 'a provider that hangs holds up what is due',
    alert: 'SluiceQueueAges',
    async cause({ sandbox, post }) {
      await sandbox.behave({ odds: { hang: 1 } }, 'sms-1')
      await Promise.all(times(100).map(() => post('sms')))
    },
  },
  {
    name: 'notifications have used up their attempts',
    alert: 'SluiceDeadLettersStay',
    options: { sms: { retry: { attempts: 1 } } },
    async cause({ sandbox, post }) {
      await sandbox.behave({ odds: { fail: 1 } }, 'sms-1')
      await Promise.all(times(3).map(() => post('sms')))
    },
  },
  {
    name: 'half of the recipients of a campaign complain, and its policy slows it',
    alert: 'SluiceComplaintsSlow',
    options: { policy: { complaints: { warnAt: '1%', pauseAt: '90%', minimumDelivered: 20 } } },
    cause: complain,
  },
  {
    name: 'half of the recipients of a campaign complain',
    alert: 'SluiceComplaintsPause',
    options: { policy: { complaints: { minimumDelivered: 20 } } },
    cause: complain,
  },
  {
    name: 'another program fills the disk slowly',
    alert: 'SluiceStoreFull',
    options: { diskMib: 128 },
    async cause({ fillDisk }, isOn) {
      while (isOn()) {
        fillDisk(262_144)
        await sleep(500)
      }
    },
  },
  {
    name: 'the disk takes 150 ms for a commit',
    alert: 'SluiceCommitsSlow',
    options: { slowable: true },
    cause: async ({ slowCommits }) => slowCommits(),
  },
  {
    name: 'PostgreSQL goes away',
    alert: 'SluiceStoreDown',
    options: { postgres: true },
    cause: ({ crashPostgres }) => crashPostgres(),
  },
  {
    name: 'Redis does not answer',
    alert: 'SluiceStateDown',
    options: { config: { state: `redis://127.0.0.1:${closedPort}` } },
    cause: async () => {},
  },
  {
    name: 'RabbitMQ does not answer',
    alert: 'SluiceQueueDown',
    options: { config: { queue: `amqp://guest:guest@127.0.0.1:${closedPort}` } },
    cause: async () => {},
  },
  {
    name: 'Cassandra does not answer',
    alert: 'SluiceDeliveryLogBehind',
    options: { config: { deliveryLog: `cassandra://127.0.0.1:${closedPort}/sluice` } },
    cause: async () => {},
  },
  {
    name: 'a tenant has no room left',
    alert: 'SluiceErrors',
    options: { tenants: { small: { waiting: 1 } } },
    async cause({ post }, isOn) {
      const sendAt = new Date(Date.now() + 3_600_000).toISOString()
      while (isOn()) {
        await post('email', { sendAt }, { 'x-tenant-id': 'small' })
        await sleep(100)
      }
    },
  },
  {
    name: 'the disk is full',
    alert: 'SluiceErrors',
    options: { diskMib: 128 },
    async cause({ fillDisk }) {
      fillDisk(Number.POSITIVE_INFINITY)
    },
  },
]

/** Notifications of an ordinary hour: at once, scheduled, repeated, refused, and now and then a provider that fails. */
async function ordinary({ sandbox, post, site }: Live, isOn: () => boolean): Promise<void> {
  await sandbox.behave({ latency: { p50Ms: 30, p99Ms: 300 }, odds: { fail: 0.005 } })
  for (let round = 0; isOn(); round += 1) {
    const sendAt = new Date(Date.now() + 2_000).toISOString()
    await Promise.all([
      post('sms'),
      post('push'),
      post('push', { priority: 'critical' }),
      ...(round % 5 === 0
        ? [post('sms', { sendAt }), post('nowhere'), site.call('GET', '/api/v1/none')]
        : []),
    ]).catch(() => undefined)
    await sleep(100)
  }
}

export const quiet: readonly Situation[] = [
  { name: 'an hour of ordinary traffic', alert: undefined, cause: ordinary },
  {
    name: 'a restart in ordinary traffic',
    alert: undefined,
    async cause(live, isOn) {
      const traffic = ordinary(live, isOn)
      await sleep(10_000)
      await live.site.terminate()
      await live.site.start()
      await traffic
    },
  },
]
