/**
 * A gateway that shares its limiter state in Redis, as a process of its own: `serve` with the state of the variable
 * SLUICE_TEST_STATE, which no configuration leads to yet.
 */
import process from 'node:process'
import { loadConfig } from '../../src/config/load.ts'
import { readStateAddress } from '../../src/config/state-address.ts'
import { createGateway } from '../../src/gateway.ts'

const path = process.argv[process.argv.indexOf('--config') + 1]!
const { SLUICE_TEST_STATE = '', SLUICE_TEST_BEAT_MS = '2000', ...env } = process.env
const config = loadConfig({ path, env, cwd: process.cwd() })
const state = readStateAddress(SLUICE_TEST_STATE, () => '')
const gateway = await createGateway(
  { ...config, state },
  { beatMs: Number(SLUICE_TEST_BEAT_MS), onDeclaredDead: () => process.exit(3) },
)
process.once('SIGTERM', () => void gateway.stop().then(() => process.exit(0)))
await gateway.start()
