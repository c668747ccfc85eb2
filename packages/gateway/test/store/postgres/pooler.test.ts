/** A pooling proxy before PostgreSQL: by session it serves, by transaction it is refused at the start. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { freePort } from '../../../../../scripts/services/port.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { checkSessions } from '../../../src/store/postgres/sessions.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { addressOf, dropSchemas, schemaUrl } from './database.ts'
import { sluice } from './sluice.ts'

describe('a pooling proxy before PostgreSQL', needs('postgres', 'pgbouncer'), () => {
  after(dropSchemas)
  for (const [mode, status] of [
    ['transaction', 2],
    ['session', 0],
  ] as const)
    test(`a proxy that pools by ${mode} ${status === 0 ? 'serves' : 'is refused at the start'}`, async (t) => {
      const url = new URL(schemaUrl(mode))
      url.port = String(await startPooler(t, mode))
      const path = join(temporaryFolder(t), 'sluice.db')
      await createSqliteStore({ path, clock: createSystemClock() }).close()
      const move = `move sqlite:${path} ${url.href}`
      for (const command of [move, 'check', 'migrate', status === 0 ? 'hash x' : 'serve']) {
        const result = sluice(command.split(' '), { SLUICE_STORE: url.href, SLUICE_HTTP_PORT: '0' })
        assert.equal(result.status, status, `${command}: ${result.err}`)
        if (status === 2) assert.match(result.err, /are pooled by transaction: .+ pool_mode = session/)
      }
    })

  for (const mode of ['transaction', 'session'])
    test(`a busy proxy that pools by ${mode} is ${mode === 'session' ? 'served' : 'noticed'} each time`, async (t) => {
      const url = new URL(schemaUrl('busy'))
      url.port = String(await startPooler(t, mode))
      const address = addressOf(url.href)
      const others = await Promise.all(Array.from({ length: 6 }, () => connect(address)))
      let isBusy = true
      const busy = others.map(async (each) => {
        while (isBusy) await each.query('SELECT pg_sleep(0.001 * random())')
        await each.close()
      })
      try {
        const connection = await connect(address)
        for (let round = 0; round < 10; round += 1) {
          const checking = checkSessions(connection, address)
          if (mode === 'session') await checking
          else await assert.rejects(checking, { code: 'INVALID_CONFIG', message: /pooled by transaction/ })
        }
        await connection.close()
      } finally {
        isBusy = false
        await Promise.all(busy)
      }
    })
})

/** Starts a proxy before the server of the tests; returns its port. */
async function startPooler(t: TestContext, mode: string): Promise<number> {
  const folder = temporaryFolder(t)
  const server = new URL(process.env.SLUICE_TEST_POSTGRES!)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(join(folder, 'users'), '"postgres" ""\n')
  writeFileSync(
    file,
    `[databases]\npostgres = host=${server.hostname} port=${server.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nauth_type = any\npool_mode = ${mode}\nunix_socket_dir =\nlogfile = ${folder}/log\n`
      .replace('auth_type = any', `auth_type = trust\nauth_file = ${folder}/users`)
      .replace(`host=${server.hostname}`, `host=${server.hostname} user=postgres`),
  )
  const pgbouncer = process.env.SLUICE_TEST_PGBOUNCER!
  const isRoot = process.getuid?.() === 0
  if (isRoot) {
    // It refuses to run as root.
    const uid = Number(spawnSync('id', ['-u', 'postgres'], { encoding: 'utf8' }).stdout)
    chmodSync(folder, 0o755)
    chownSync(folder, uid, uid)
  }
  const child = isRoot
    ? spawn(pgbouncer, ['-u', 'postgres', file], { stdio: 'ignore' })
    : spawn(pgbouncer, [file], { stdio: 'ignore' })
  t.after(() => child.kill('SIGKILL'))
  for (let tries = 0; tries < 1_000 && !(await answers(port)); tries += 1) await sleep(50)
  return port
}

/** True where the port takes connections. */
function answers(port: number): Promise<boolean> {
  const socket = createConnection(port, '127.0.0.1')
  return new Promise<boolean>((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  }).finally(() => socket.destroy())
}
