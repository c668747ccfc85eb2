/**
 * The command `npm run demo -- burst`: starts engines, a sandbox and gateways as processes, shows what they do, and stops
 * all of it. It ends with 1 where something was lost, accepted twice, or sent above a rate.
 */
import { misused, readArguments } from '../../../../scripts/runner/arguments.ts'
import { EngineMissing } from '../../../../scripts/services/install.ts'

/** The sandbox keeps 200,000 calls, those that are refused among them. */
const recordsMax = 150_000

const usage = `Usage: npm run demo -- burst [options]
Starts PostgreSQL, Redis, Kafka and RabbitMQ, a sandbox as the provider, and gateways; writes a burst of records to a topic as
fast as the broker takes it, shows how it leaves, and ends with a table. A tenth of the accounts are blocked.
The same in virtual time: npm run sim -- burst

  --records <number>   records of the burst (50000)
  --accounts <number>  accounts of the provider, 10 calls a second each (500)
  --gateways <number>  gateways over one record (2)

An engine that SLUICE_TEST_KAFKA, SLUICE_TEST_POSTGRES, SLUICE_TEST_RABBITMQ or SLUICE_TEST_REDIS names is used as it is.`

const { values, positionals } = readArguments(
  usage,
  {
    records: { type: 'string', default: '50000' },
    accounts: { type: 'string', default: '500' },
    gateways: { type: 'string', default: '2' },
  },
  { allowPositionals: true },
)

function read(name: 'records' | 'accounts' | 'gateways', max: number): number {
  const value = Number(values[name])
  if (Number.isInteger(value) && value >= 1 && value <= max) return value
  misused(usage, `--${name} takes a whole number from 1 to ${max}`)
}

const [name, ...others] = positionals
if (name !== 'burst' || others.length > 0)
  misused(usage, name === undefined ? 'which demonstration? There is "burst".' : `there is no "${name}"`)
const sizes = {
  records: read('records', recordsMax),
  accounts: read('accounts', 1_000),
  gateways: read('gateways', 8),
}

const cleanups: (() => unknown)[] = []
let cleaning: Promise<void> | undefined
const cleanUp = (): Promise<void> => {
  cleaning ??= (async () => {
    for (const cleanup of cleanups.reverse()) await cleanup()
  })()
  return cleaning
}
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => {
    process.exitCode = code
    void cleanUp().finally(() => process.exit())
  })

try {
  // Loaded here: who asks for the usage waits for no gateway.
  const { runBurst } = await import('./burst.ts')
  const holds = await runBurst({ ...sizes, after: (cleanup) => void cleanups.push(cleanup) })
  process.exitCode ??= holds ? 0 : 1
} catch (error) {
  // While everything is being stopped, questions fail.
  if (cleaning === undefined) {
    console.error(error instanceof EngineMissing ? error.message : error)
    process.exitCode = 1
  }
} finally {
  await cleanUp()
}
// Connections to engines that are gone by now would keep the process.
process.exit()
