/**
 * graphile-worker on PostgreSQL, with what its performance page turns on: a local queue that locks many jobs at once, and
 * completions in batches. It does the queue part only: it takes no request, asks no limit and keeps no record of the
 * delivery. One process adds and works. JavaScript, because its packages are no dependencies of the project.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'
import { adding } from '../queued.ts'

const task = 'notify'
const concurrency = 100
const logger = new Logger(() => () => {})

export async function open({ url, settled }) {
  const pgPool = new pg.Pool({ connectionString: url, max: 24 })
  const ignore = () => {}
  pgPool.on('error', ignore)
  pgPool.on('connect', (client) => client.on('error', ignore))
  const utils = await makeWorkerUtils({ pgPool, logger })
  await utils.migrate()
  const runner = await run({
    pgPool,
    logger,
    concurrency,
    noHandleSignals: true,
    taskList: {
      // The provider: it accepts after one turn of the event loop.
      async [task]({ data }) {
        await new Promise((resolve) => setImmediate(resolve))
        settled(data.number)
      },
    },
    preset: {
      worker: {
        concurrentJobs: concurrency,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  })
  return {
    port: 0,
    questions: adding({
      one: (message) => utils.addJob(task, message),
      many: (messages) => utils.addJobs(messages.map((payload) => ({ identifier: task, payload }))),
    }),
    async close() {
      await runner.stop()
      await utils.release()
      await pgPool.end()
    },
  }
}
