/** The engines that can be started here, one file each, and the environment by which tests find them. */
import { startCassandra } from './cassandra.ts'
import { startFaketime } from './faketime.ts'
import { startKafka } from './kafka.ts'
import { startPgbouncer } from './pgbouncer.ts'
import { startMailServer } from './postfix.ts'
import { startPostgres } from './postgres.ts'
import { startPromtool } from './promtool.ts'
import { startRabbitmq } from './rabbitmq.ts'
import { startRedis } from './redis.ts'
import { startRedisCluster } from './redis-cluster.ts'
import { startRedisSentinel } from './redis-sentinel.ts'
import type { Service, StartOptions } from './service.ts'
import { startValkey } from './valkey.ts'

export interface Engine {
  /** The environment variables that it sets; an engine whose variables are set already is used as it is. */
  readonly env: readonly [string, ...string[]]
  readonly start: (options: StartOptions) => Promise<Service>
}

export const engines: Readonly<Record<string, Engine>> = {
  redis: { env: ['SLUICE_TEST_REDIS'], start: startRedis },
  'redis-cluster': { env: ['SLUICE_TEST_REDIS_CLUSTER'], start: startRedisCluster },
  'redis-sentinel': { env: ['SLUICE_TEST_REDIS_SENTINEL'], start: startRedisSentinel },
  valkey: { env: ['SLUICE_TEST_VALKEY'], start: startValkey },
  postgres: { env: ['SLUICE_TEST_POSTGRES'], start: startPostgres },
  cassandra: { env: ['SLUICE_TEST_CASSANDRA'], start: startCassandra },
  rabbitmq: { env: ['SLUICE_TEST_RABBITMQ'], start: startRabbitmq },
  kafka: { env: ['SLUICE_TEST_KAFKA'], start: startKafka },
  faketime: { env: ['SLUICE_TEST_FAKETIME'], start: startFaketime },
  pgbouncer: { env: ['SLUICE_TEST_PGBOUNCER'], start: startPgbouncer },
  promtool: { env: ['SLUICE_TEST_PROMTOOL'], start: startPromtool },
  postfix: { env: ['SLUICE_TEST_SMTP', 'SLUICE_TEST_MAILDIR'], start: startMailServer },
}
