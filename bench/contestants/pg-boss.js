/**
 * pg-boss on PostgreSQL: its defaults fetch one job every 2 s a worker, so it gets batches of 200, bursts while batches come
 * back full, and four workers that look every 0.5 s. It does the queue part only: it takes no request, asks no limit and
 * keeps no record of the delivery but the job. One process adds and works. JavaScript, because its packages are no
 * dependencies of the project.
 */
import { PgBoss } from 'pg-boss'
import { adding } from '../queued.ts'

const queue = 'notify'

export async function open({ url, settled }) {
  const boss = new PgBoss({ connectionString: url, max: 24 })
  boss.on('error', (error) => console.error(String(error)))
  await boss.start()
  await boss.createQueue(queue)
  await boss.work(
    queue,
    { batchSize: 200, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5, localConcurrency: 4 },
    async (jobs) => {
      // The provider: it accepts after one turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve))
      for (const { data } of jobs) settled(data.data.number)
    },
  )
  return {
    port: 0,
    questions: adding({
      one: (message) => boss.send(queue, message),
      many: (messages) =>
        boss.insert(
          queue,
          messages.map((data) => ({ data })),
        ),
    }),
    close: () => boss.stop({ graceful: true, timeout: 5_000, close: true }),
  }
}
