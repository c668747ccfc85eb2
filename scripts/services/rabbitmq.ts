/**
 * RabbitMQ as the tests want it: loopback, ports of its own, a temporary folder. The broker needs Erlang's port mapper:
 * it gets one of its own on a port of its own, since a command of RabbitMQ that finds none starts one that stays.
 */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureInstalled, findCommand } from './install.ts'
import { firstWords, freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

export interface RabbitmqOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
}

/** Debian keeps the server's own script out of the path: the wrapper that is in it takes no environment along. */
const debianScript = '/usr/lib/rabbitmq/bin/rabbitmq-server'
/** The first bytes of AMQP 0-9-1: the protocol's name and version. */
const protocolHeader = 'AMQP\0\0\t\u0001'
/** Asks the port mapper for its names: two bytes of length, then the request. */
const namesRequest = '\0\u0001n'
/** A start takes 3 to 8 s on an idle machine of two cores. */
const patienceMs = 60_000

/**
 * Starts a broker; its `pid` is the broker's. Started again with the same `folder` and `port`, it comes back with its
 * durable queues and persistent messages.
 */
export async function startRabbitmq(options: RabbitmqOptions = {}): Promise<Service> {
  await ensureInstalled({
    engine: 'rabbitmq',
    commands: ['rabbitmq-server', 'epmd'],
    packages: ['rabbitmq-server'],
  })
  return startService('rabbitmq', options, async ({ folder, run, until }) => {
    const port = options.port ?? (await freePort())
    const mapper = await freePort()
    const distribution = await freePort()
    const plugins = join(folder, 'enabled_plugins')
    writeFileSync(plugins, '[].\n')
    const env = {
      HOME: folder,
      RABBITMQ_NODENAME: 'sluice@localhost',
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: `${port}`,
      RABBITMQ_DIST_PORT: `${distribution}`,
      ERL_EPMD_PORT: `${mapper}`,
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_MNESIA_BASE: join(folder, 'data'),
      RABBITMQ_LOG_BASE: folder,
      RABBITMQ_LOGS: '-',
      RABBITMQ_ENABLED_PLUGINS_FILE: plugins,
      RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq'),
      RABBITMQ_PID_FILE: join(folder, 'rabbitmq.pid'),
      // Schedulers that wait without spinning leave the cores to the tests.
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS:
        '-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none',
      // The script becomes the broker, in place of waiting for it.
      RUNNING_UNDER_SYSTEMD: 'true',
    }
    run('epmd', findCommand('epmd')!, ['-port', `${mapper}`, '-address', '127.0.0.1'])
    await until('the port mapper', async () => (await firstWords(mapper, namesRequest)) !== undefined)
    const script = existsSync(debianScript) ? debianScript : findCommand('rabbitmq-server')!
    const pid = run('rabbitmq', script, [], env)
    const answers = async () => (await firstWords(port, protocolHeader))?.includes('RabbitMQ') ?? false
    await until('its first answer', answers, patienceMs)
    const url = `amqp://guest:guest@127.0.0.1:${port}`
    return { url, env: { SLUICE_TEST_RABBITMQ: url }, pid }
  })
}
