/** Connects to Cassandra, and makes the tables of the delivery log where they are missing. */
import cassandra, { type Client } from 'cassandra-driver'
import { SluiceError } from '../../errors.ts'
import { missingTables, schemaOf } from './cassandra-schema.ts'

export interface CassandraAddress {
  /** Host and port of the nodes that are asked first; the others are found by them. */
  readonly nodes: readonly string[]
  readonly keyspace: string
  /** The data centre whose nodes are asked. Absent: all nodes in turn. */
  readonly dataCentre?: string
  readonly user?: string
  readonly password?: string
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** Replicas in each data centre of a keyspace that is made here. Absent: 3, or one a node where there are fewer. */
  readonly replication?: number
  /** The address without the password. */
  readonly shown: string
}

const connectMs = 5_000
/** An answer that takes longer is given up, and what it was about is written again. */
const readMs = 5_000
/** Time between two tries to reach a node again, ms: the driver's own delay grows to ten minutes. */
const reconnectMs = 1_000
/** Replicas of a keyspace that is made here, where there are as many nodes. */
const replicasMax = 3

export async function connectCassandra(
  address: CassandraAddress,
  onCreated: (statements: readonly string[]) => void,
): Promise<Client> {
  const client = openClient(address)
  try {
    await client.connect()
    if ((await missingTables(client, address.keyspace)).length > 0) {
      const statements = schemaOf(address.keyspace, replicationOf(client, address))
      for (const statement of statements) await client.execute(statement)
      onCreated(statements)
    }
    return client
  } catch (error) {
    await shutDown(client)
    throw error
  }
}

/** The parts of a client that its types do not tell. */
interface Inside {
  readonly controlConnection?: { shutdown(): void; readonly connection?: { close(): void } | null }
}

/**
 * Ends a client. Where it found no node of its data centre the driver (4.10.0) keeps the control connection open, and with
 * every try one more would be left behind.
 */
async function shutDown(client: Client): Promise<void> {
  await client.shutdown().catch(() => {})
  const { controlConnection } = client as unknown as Inside
  controlConnection?.shutdown()
  controlConnection?.connection?.close()
}

function openClient({ nodes, dataCentre, user, password, tls }: CassandraAddress): Client {
  const { loadBalancing, reconnection } = cassandra.policies
  const inTurn =
    dataCentre === undefined
      ? new loadBalancing.RoundRobinPolicy()
      : new loadBalancing.DCAwareRoundRobinPolicy(dataCentre)
  return new cassandra.Client({
    contactPoints: [...nodes],
    ...(dataCentre === undefined ? {} : { localDataCenter: dataCentre }),
    ...(user === undefined ? {} : { credentials: { username: user, password: password ?? '' } }),
    ...(tls === undefined ? {} : { sslOptions: { ...tls, rejectUnauthorized: true } }),
    policies: {
      loadBalancing: new loadBalancing.TokenAwarePolicy(inTurn),
      reconnection: new reconnection.ConstantReconnectionPolicy(reconnectMs),
    },
    // TCP looks after idle connections. The driver's own heartbeat is not ended with a connection that was cut off while it
    // was made, and would keep the process from ending for half a minute.
    pooling: { heartBeatInterval: 0 },
    socketOptions: { connectTimeout: connectMs, readTimeout: readMs },
    // An absent field leaves no mark of a deletion behind.
    encoding: { useUndefinedAsUnset: true },
  })
}

function replicationOf(client: Client, { replication }: CassandraAddress): string {
  const centres = Map.groupBy(client.hosts.values(), (host) => host.datacenter)
  const each = [...centres].map(
    ([centre, hosts]) => `'${centre}': ${replication ?? Math.min(replicasMax, hosts.length)}`,
  )
  return `{'class': 'NetworkTopologyStrategy', ${each.join(', ')}}`
}

/**
 * Looks at the cluster without changing anything, and describes it.
 * @throws SluiceError INVALID_CONFIG with the way out, where it does not serve
 */
export async function lookAtCassandra(address: CassandraAddress): Promise<string> {
  const client = openClient(address)
  try {
    await client.connect()
    const missing = await missingTables(client, address.keyspace)
    const [host] = client.hosts.values()
    const tables = missing.length === 0 ? 'its tables are there' : 'its tables are made at the start'
    return `Cassandra ${host?.cassandraVersion ?? ''}, ${client.hosts.length} nodes, keyspace ${address.keyspace}: ${tables}`
  } catch (error) {
    throw new SluiceError(
      'INVALID_CONFIG',
      `deliveryLog: ${address.shown} does not serve: ${reasonOf(error)}. Expected a reachable node, a user that may log in, and dc as nodetool status shows it.`,
    )
  } finally {
    await shutDown(client)
  }
}

/** The reason of the first node, where the driver found no node that serves. */
function reasonOf(error: unknown): string {
  const { innerErrors, message } = error as Error & { innerErrors?: Readonly<Record<string, Error>> }
  return Object.values(innerErrors ?? {})[0]?.message ?? message
}
