/** Cassandra as the tests want it: one node on loopback that asks for a login, a small heap, a temporary folder. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fetchJars } from './maven.ts'
import { firstWords, freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

export interface CassandraOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
}

/** The port of the nodes among themselves lies so far above that of the clients. */
const storageDistance = 1
/** Packages that `jvm17-server.options` of Cassandra exports and opens. */
const exported = [
  'java.base/jdk.internal.misc',
  'java.base/java.lang.ref',
  'java.management.rmi/com.sun.jmx.remote.internal.rmi',
  'java.rmi/sun.rmi.registry',
  'java.rmi/sun.rmi.server',
  'java.sql/java.sql',
  'jdk.unsupported/sun.misc',
]
const opened = [
  'java.base/java.io',
  'java.base/java.lang',
  'java.base/java.lang.module',
  'java.base/java.lang.reflect',
  'java.base/java.nio',
  'java.base/java.util',
  'java.base/java.util.concurrent',
  'java.base/java.util.concurrent.atomic',
  'java.base/jdk.internal.loader',
  'java.base/jdk.internal.math',
  'java.base/jdk.internal.module',
  'java.base/jdk.internal.ref',
  'java.base/jdk.internal.reflect',
  'java.base/jdk.internal.util.jar',
  'java.base/sun.nio.ch',
  'jdk.management/com.sun.management.internal',
]

/** The role that every new node has. */
const login = 'cassandra:cassandra'

/** Starts a node. Its `url` is what stands in an address behind `cassandra://`: user, password, host and port. Started again with the same `folder` and `port`, it comes back with its rows. */
export async function startCassandra(options: CassandraOptions = {}): Promise<Service> {
  const jars = await fetchJars({
    name: 'cassandra',
    artifacts: ['org.apache.cassandra:cassandra-all:5.0.9'],
    env: 'SLUICE_TEST_CASSANDRA',
  })
  return startService('cassandra', options, async ({ folder, run, until }) => {
    const port = options.port ?? (await freePort([storageDistance]))
    const settings = join(folder, 'cassandra.yaml')
    mkdirSync(folder, { recursive: true })
    writeFileSync(settings, settingsOf(port, folder))
    writeFileSync(join(folder, 'logback.xml'), logging)
    run('cassandra', 'java', [
      ...['-Xmx768m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xshare:auto'],
      `-javaagent:${join(jars, 'jamm-0.4.0.jar')}`,
      ...exported.flatMap((name) => ['--add-exports', `${name}=ALL-UNNAMED`]),
      ...opened.flatMap((name) => ['--add-opens', `${name}=ALL-UNNAMED`]),
      '-Djdk.attach.allowAttachSelf=true',
      `-Dcassandra.config=file://${settings}`,
      `-Dcassandra.storagedir=${folder}`,
      `-Dlogback.configurationFile=${join(folder, 'logback.xml')}`,
      // The first role is made 10 s after the start otherwise.
      '-Dcassandra.superuser_setup_delay_ms=0',
      // A node that is alone has nobody to wait for.
      ...['-Dcassandra.skip_wait_for_gossip_to_settle=0', '-Dcassandra.ring_delay_ms=0'],
      ...['-cp', `${jars}/*`, 'org.apache.cassandra.service.CassandraDaemon'],
    ])
    await until('its first answer', () => answersOptions(port), 90_000)
    await until('its first login', () => logsIn(port), 30_000)
    const url = `${login}@127.0.0.1:${port}`
    return { url, env: { SLUICE_TEST_CASSANDRA: url } }
  })
}

function settingsOf(port: number, folder: string): string {
  const storagePort = port + storageDistance
  return Object.entries({
    cluster_name: 'sluice',
    num_tokens: 1,
    auto_bootstrap: false,
    partitioner: 'org.apache.cassandra.dht.Murmur3Partitioner',
    endpoint_snitch: 'SimpleSnitch',
    listen_address: '127.0.0.1',
    rpc_address: '127.0.0.1',
    authenticator: 'PasswordAuthenticator',
    authorizer: 'CassandraAuthorizer',
    // Rights that are granted hold at once.
    roles_validity: '0ms',
    permissions_validity: '0ms',
    credentials_validity: '0ms',
    native_transport_port: port,
    storage_port: storagePort,
    seed_provider: `[{ class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{ seeds: "127.0.0.1:${storagePort}" }] }]`,
    commitlog_sync: 'periodic',
    commitlog_sync_period: '1s',
    // Direct I/O is refused by the file systems of many containers.
    commitlog_disk_access_mode: 'legacy',
    data_file_directories: `[${join(folder, 'data')}]`,
    commitlog_directory: join(folder, 'commitlog'),
    saved_caches_directory: join(folder, 'caches'),
    hints_directory: join(folder, 'hints'),
  })
    .map(([key, value]) => `${key}: ${value}\n`)
    .join('')
}

const logging = `<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%level %date %logger{0} %msg%n</pattern></encoder></appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
`

/** OPTIONS of the native protocol, version 4, is answered as soon as the node serves clients. */
async function answersOptions(port: number): Promise<boolean> {
  const request = Buffer.from([4, 0, 0, 0, 5, 0, 0, 0, 0])
  return (await firstWords(port, request)) !== undefined
}

/** A node that serves clients may not have its first role yet. */
async function logsIn(port: number): Promise<boolean> {
  const { Client } = (await import('cassandra-driver')).default
  const [username = '', password = ''] = login.split(':')
  const client = new Client({
    contactPoints: [`127.0.0.1:${port}`],
    localDataCenter: 'datacenter1',
    credentials: { username, password },
  })
  return client
    .connect()
    .then(
      () => true,
      () => false,
    )
    .finally(() => client.shutdown())
}
