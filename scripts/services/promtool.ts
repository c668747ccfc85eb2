/**
 * promtool, Prometheus' own judge of metrics and rules. It is no server: what tests find in the environment is the
 * command. Debian has it in the package of the server, which is not started.
 */
import { ensureInstalled, findCommand } from './install.ts'
import type { Service } from './service.ts'

/** @throws {EngineMissing} */
export async function startPromtool(): Promise<Service> {
  await ensureInstalled({ engine: 'promtool', commands: ['promtool'], packages: ['prometheus'] })
  const path = findCommand('promtool')!
  const env = { SLUICE_TEST_PROMTOOL: path }
  return { name: 'promtool', url: path, env, pid: process.pid, folder: '', stop: async () => {} }
}
