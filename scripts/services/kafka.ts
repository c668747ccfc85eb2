/** Kafka as the tests want it: one broker that is its own controller (KRaft), loopback, a temporary folder. */
import { execFile } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fetchJars } from './maven.ts'
import { firstWords, freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

export interface KafkaOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
  /** A listener with TLS beside the plain one, for the user `sluice` with the password `secret`. @defaultValue none */
  readonly tls?: { readonly certificate: string; readonly key: string }
}

export interface Kafka extends Service {
  /** Host and port of the listener with TLS; nobody listens there without the option. */
  readonly secure: string
}

const execute = promisify(execFile)
/** Any 16 bytes in base64 name a cluster. */
const clusterId = 'c2x1aWNlLXRlc3Qta2Fma2E'
/** The controller's port and that with TLS lie so far above the broker's. */
const controllerDistance = 1
const secureDistance = 2

/** Starts a broker. Started again with the same `folder` and `port`, it comes back with its records. */
export async function startKafka(options: KafkaOptions = {}): Promise<Kafka> {
  const jars = await fetchJars({
    name: 'kafka',
    artifacts: ['org.apache.kafka:kafka_2.13:4.3.1', 'org.slf4j:slf4j-simple:1.7.36'],
    env: 'SLUICE_TEST_KAFKA',
  })
  const { tls } = options
  let secure = ''
  const service = await startService('kafka', options, async ({ folder, run, until }) => {
    const port = options.port ?? (await freePort([controllerDistance, secureDistance]))
    const settings = join(folder, 'server.properties')
    const java = ['-Xmx512m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', `${jars}/*`]
    if (!existsSync(settings)) {
      if (tls !== undefined) writeFileSync(join(folder, 'tls.pem'), `${tls.key}${tls.certificate}`)
      const secured = tls === undefined ? {} : secureSettings(port, join(folder, 'tls.pem'))
      writeFileSync(settings, settingsOf(port, join(folder, 'data'), secured))
      const user = tls === undefined ? [] : ['--add-scram', 'SCRAM-SHA-512=[name=sluice,password=secret]']
      const format = ['format', '-t', clusterId, '-c', settings, ...user]
      await execute('java', [...java, 'kafka.tools.StorageTool', ...format])
    }
    run('kafka', 'java', [...java, 'kafka.Kafka', settings])
    await until('its first answer', () => answersVersions(port), 60_000)
    const url = `127.0.0.1:${port}`
    secure = `127.0.0.1:${port + secureDistance}`
    return { url, env: { SLUICE_TEST_KAFKA: url } }
  })
  return { ...service, secure }
}

/** Settings of the listener with TLS and users; they stand over those of a broker without it. */
function secureSettings(port: number, keyStore: string): Record<string, string> {
  const module = 'org.apache.kafka.common.security'
  const listener = 'listener.name.sasl_ssl'
  const address = `127.0.0.1:${port}`
  const secureAddress = `127.0.0.1:${port + secureDistance}`
  const all = `PLAINTEXT://${address},SASL_SSL://${secureAddress}`
  return {
    listeners: `${all},CONTROLLER://127.0.0.1:${port + controllerDistance}`,
    'advertised.listeners': all,
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL',
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': keyStore,
    'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-512',
    [`${listener}.plain.sasl.jaas.config`]: `${module}.plain.PlainLoginModule required user_sluice="secret";`,
    [`${listener}.scram-sha-512.sasl.jaas.config`]: `${module}.scram.ScramLoginModule required;`,
  }
}

function settingsOf(port: number, data: string, more: Readonly<Record<string, string>>): string {
  const controller = port + controllerDistance
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controller}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': data,
    'offsets.topic.replication.factor': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.num.partitions': 1,
    ...more,
  })
    .map(([key, value]) => `${key}=${value}\n`)
    .join('')
}

/** ApiVersions, version 0, is answered as soon as the broker serves clients; its coordinator may need longer. */
async function answersVersions(port: number): Promise<boolean> {
  const request = Buffer.from([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff])
  return (await firstWords(port, request)) !== undefined
}
