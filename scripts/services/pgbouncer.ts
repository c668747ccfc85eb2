/**
 * PgBouncer, a pooling proxy for PostgreSQL. Tests start it before the server of theirs, in a mode of their own: what they
 * find in the environment is the command.
 */
import { ensureInstalled, findCommand } from './install.ts'
import type { Service } from './service.ts'

/** @throws {EngineMissing} */
export async function startPgbouncer(): Promise<Service> {
  await ensureInstalled({ engine: 'pgbouncer', commands: ['pgbouncer'], packages: ['pgbouncer'] })
  const path = findCommand('pgbouncer')!
  const env = { SLUICE_TEST_PGBOUNCER: path }
  return { name: 'pgbouncer', url: path, env, pid: process.pid, folder: '', stop: async () => {} }
}
