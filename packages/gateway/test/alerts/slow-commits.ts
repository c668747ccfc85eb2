/** Preloaded into a gateway: a durable commit takes 150 ms longer while the file named in the environment exists. */
import { existsSync } from 'node:fs'
import { DatabaseSync, type StatementSync } from 'node:sqlite'

const slowMs = 150
const cell = new Int32Array(new SharedArrayBuffer(4))
const prepare = DatabaseSync.prototype.prepare

DatabaseSync.prototype.prepare = function prepareSlowly(this: DatabaseSync, sql: string): StatementSync {
  const statement = prepare.call(this, sql)
  if (sql !== 'COMMIT') return statement
  const run = statement.run.bind(statement)
  statement.run = () => {
    if (existsSync(process.env.SLUICE_TEST_SLOW_COMMITS!)) Atomics.wait(cell, 0, 0, slowMs)
    return run()
  }
  return statement
}
