/** A gateway as \`sluice serve\` runs it, with the time between two beats of the variable SLUICE_TEST_BEAT_MS, ms. */
import { flushCompileCache } from 'node:module'
import process from 'node:process'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'

const path = process.argv[process.argv.indexOf('--config') + 1]!
const { SLUICE_TEST_BEAT_MS = '2000', ...env } = process.env
const config = loadConfig({ path, env, cwd: process.cwd() })
const gateway = await createGateway(config, {
  beatMs: Number(SLUICE_TEST_BEAT_MS),
  onDeclaredDead: () => process.exit(3),
})
process.once('SIGTERM', () => void gateway.stop().then(() => process.exit(0)))
await gateway.start()
// Tests kill it, and one that is killed leaves the next to compile all again.
flushCompileCache()
