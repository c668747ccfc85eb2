/** The configuration of a gateway in virtual time: its tenants have no limits and no bounds, its store is in memory. */
import type { Config } from '../config/config.ts'
import { loadConfig } from '../config/load.ts'

export function unlimitedConfig(policy: Config['policy']): Config {
  const config = loadConfig({ env: {}, cwd: import.meta.dirname })
  const unlimited = { text: 'unlimited', windows: [] }
  const free = {
    ...config.tenants.default,
    rate: unlimited,
    modules: unlimited,
    queueMax: Number.MAX_SAFE_INTEGER,
    waitingMax: Number.MAX_SAFE_INTEGER,
    bytesMax: Number.MAX_SAFE_INTEGER,
  }
  return {
    ...config,
    policy,
    store: { kind: 'sqlite', path: ':memory:' },
    tenants: { default: free, byId: new Map() },
    log: { level: 'error' },
  }
}
