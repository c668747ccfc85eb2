/**
 * `sluice serve`: runs the gateway until a signal stops it. The first signal starts a graceful shutdown: no new
 * work is accepted, sends in flight finish, and the process exits with 0 within http.drainDelay plus
 * http.drainMs. Sends that did not finish are recovered at the next start. A second signal exits at once.
 */
import type { Config, LogLevel } from '../config/config.ts'
import { didYouMean } from '../config/suggestion.ts'
import { SluiceError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { OperatorLog } from '../log.ts'
import { version } from '../version.ts'
import { type Arguments, badUsage, type CommandForm, configOption, jsonOption } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'
import { collectEarlier } from './start-memory.ts'
import { type Stopping, stopSignal } from './stop-signal.ts'

const roles = ['http', 'websocket', 'intake', 'schedule', 'dispatch'] as const

export const form: CommandForm = {
  name: 'serve',
  summary: 'Run the gateway.',
  options: {
    config: configOption,
    roles: {
      value: '<roles>',
      text: `All of ${roles.join(',')} by default; a part of them is not carried by this version yet`,
    },
    'accept-loss': {
      text: 'Start although commits are missing from the store that were acknowledged, once',
    },
    json: { ...jsonOption, text: 'Print the line that tells the address as JSON' },
  },
  elsewhere: {
    port: 'use http.port of the configuration, or SLUICE_HTTP_PORT',
    host: 'use http.host of the configuration, or SLUICE_HTTP_HOST',
  },
  examples: [
    ['sluice serve', 'With ./sluice.yaml where there is one, else with the defaults'],
    ['sluice serve --config /etc/sluice/sluice.yaml', 'With another configuration'],
    ['SLUICE_HTTP_PORT=9090 sluice serve', 'A variable overrides the file'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  checkRoles(read.text('roles'))
  const { loadConfig } = await import('../config/load.ts')
  const path = read.text('config')
  const load = (): Config => loadConfig({ env: io.env, cwd: io.cwd, ...(path === undefined ? {} : { path }) })
  const config = load()
  const { createGateway } = await import('../gateway.ts')
  const stopping = stopSignal()
  let stopDebugging = (): void => {}
  let stopReloading = (): void => {}
  collectEarlier()
  try {
    const dead = Promise.withResolvers<typeof declaredDead>()
    const gateway = await createGateway(config, {
      acceptLoss: read.has('accept-loss'),
      onDeclaredDead: () => dead.resolve(declaredDead),
    })
    const { log } = gateway
    stopDebugging = debugOnSignal(log, config.log.level)
    stopReloading = reloadOnSignal(gateway, load)
    const started = await Promise.race([gateway.start(), dead.promise])
    if (started === declaredDead) return end(io, config)
    const { url } = started
    log.info({
      event: 'config.loaded',
      file: config.file ?? null,
      policy: config.policy.compiled.version,
      policyFile: config.policy.file,
    })
    io.out(
      read.has('json')
        ? JSON.stringify({ url, store: config.store.path, policy: config.policy.compiled.version })
        : greeting(url, config),
    )
    if ((await Promise.race([stopping.requested, dead.promise])) === declaredDead) return end(io, config)
    const { drainDelayMs, drainMs } = config.http
    return await drain(gateway.stop(), drainDelayMs + drainMs, stopping, io)
  } catch (error) {
    throw startError(error, config)
  } finally {
    stopping.forget()
    stopDebugging()
    stopReloading()
  }
}

const declaredDead = Symbol('declared dead')

/** Ends at once: the store takes nothing more from this process, and the others send what it held. */
function end(io: Io, { state, store }: Pick<Config, 'state' | 'store'>): number {
  const isAlone = state.kind === 'memory' || store.postgres === undefined
  io.err(
    isAlone
      ? 'sluice: the store no longer has the registration of this process; it ends, and can be started again'
      : 'sluice: the other gateways found this one silent for too long and send what it held; it ends, and can be started again',
  )
  return exitCodes.failure
}

/**
 * SIGHUP reads secrets, keys, templates and the policy again. They are checked as a whole, and take effect or leave everything as
 * it was, with a line of the log that says why. Signals during a reload are one more reload after it.
 */
function reloadOnSignal(gateway: Pick<Gateway, 'log' | 'reload'>, load: () => Config): () => void {
  const { log } = gateway
  let isRunning = false
  let isAskedAgain = false
  const onSignal = async (): Promise<void> => {
    isAskedAgain = isRunning
    if (isRunning) return
    isRunning = true
    try {
      const next = load()
      await gateway.reload(next)
      const { compiled, file } = next.policy
      log.info({
        event: 'config.reloaded',
        file: next.file ?? null,
        policy: compiled.version,
        policyFile: file,
      })
    } catch (error) {
      const { message } = error as Error
      log.error({ event: 'config.refused', reason: message, errors: (error as SluiceError).errors })
    }
    isRunning = false
    if (isAskedAgain) await onSignal()
  }
  const listener = (): void => void onSignal()
  process.on('SIGHUP', listener)
  return () => void process.off('SIGHUP', listener)
}

/** How long SIGUSR2 keeps the log at the level debug. */
const debugMs = 5 * 60_000

/** SIGUSR2 sets the log to debug for five minutes; a second one within them sets it back. */
function debugOnSignal(log: OperatorLog, level: LogLevel): () => void {
  let timer: NodeJS.Timeout | undefined
  const set = (to: LogLevel): void => {
    log.setLevel(to)
    log.info({ event: 'log.level', to })
  }
  const end = (): void => {
    clearTimeout(timer)
    timer = undefined
    set(level)
  }
  const onSignal = (): void => {
    if (timer === undefined) {
      timer = setTimeout(end, debugMs).unref()
      set('debug')
    } else end()
  }
  process.on('SIGUSR2', onSignal)
  return () => {
    clearTimeout(timer)
    process.off('SIGUSR2', onSignal)
  }
}

function checkRoles(written: string | undefined): void {
  if (written === undefined) return
  const named = written.split(',').map((role) => role.trim())
  for (const role of named) {
    if (!(roles as readonly string[]).includes(role))
      throw badUsage(form, `"${role}" is no role${didYouMean(role, roles)}`)
  }
  const missing = roles.filter((role) => !named.includes(role))
  if (missing.length > 0)
    throw badUsage(
      form,
      `a gateway without ${missing.join(', ')} is not carried by this version yet; leave --roles out`,
    )
}

/** Draining stops this long before the deadline, so that the process has exited by then. */
const endingMsMax = 1_000
const endingShare = 0.2

/** Returns that the store did not answer the last word of this process: the next start takes it for one that was killed. */
function whereAway(error: unknown): SluiceError {
  if (error instanceof SluiceError && error.code === 'STORE_UNAVAILABLE') return error
  throw error
}

async function drain(stopped: Promise<void>, drainMs: number, stopping: Stopping, io: Io): Promise<number> {
  const over = Promise.withResolvers<'time'>()
  const timer = setTimeout(() => over.resolve('time'), drainMs - Math.min(endingMsMax, drainMs * endingShare))
  const how = await Promise.race([
    stopped.then(() => 'drained' as const, whereAway),
    over.promise,
    stopping.requestedAgain.then(() => 'again' as const),
  ])
  clearTimeout(timer)
  if (how instanceof SluiceError)
    io.err(`sluice: ${how.message} What was accepted is on record, and is found again at the next start`)
  if (how === 'again') io.err('sluice: stopped at once; what was in flight is found again at the next start')
  if (how === 'time')
    io.err(
      `sluice: not all that was in flight settled within ${drainMs} ms; the rest is found again at the next start`,
    )
  return how === 'again' ? exitCodes.failure : exitCodes.ok
}

function greeting(url: string, config: Config): string {
  const { store, pools, policy } = config
  const sandboxed = pools.every((pool) => pool.provider === 'sandbox')
  const served = sandboxed
    ? 'sandbox for every channel, nothing leaves this machine'
    : pools
        .map(
          ({ channel, provider, accounts }) =>
            `${channel} by ${provider}${accounts.length > 1 ? ` ×${accounts.length}` : ''}`,
        )
        .join(', ')
  const rules = policy.builtIn ? 'built-in' : policy.file
  return `sluice ${version} listens on ${url} · store ${store.path} · policy ${rules} (${policy.compiled.version}) · ${served}`
}

/** Turns an error at start into a sentence that says how to fix it. */
function startError(error: unknown, config: Config): unknown {
  if (error instanceof SluiceError || error instanceof Failure) return error
  const { host, port } = config.http
  const reason = {
    EADDRINUSE: 'is in use by another process',
    EACCES: 'may not be used by this user',
    EADDRNOTAVAIL: 'is no address of this machine',
    ENOTFOUND: 'is no known host',
  }[(error as NodeJS.ErrnoException).code ?? '']
  const ofListen = ['listen', 'getaddrinfo'].includes((error as NodeJS.ErrnoException).syscall ?? '')
  if (reason === undefined || !ofListen) return error
  return new SluiceError(
    'INVALID_CONFIG',
    `http: ${host}:${port} ${reason}; set another with http.port or SLUICE_HTTP_PORT (0 takes any free one)`,
    { cause: error },
  )
}
