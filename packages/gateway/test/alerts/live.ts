/**
 * A gateway as its operator has it: a process with its store on a disk of its own, accounts at an emulated provider
 * in another process, ordinary traffic, and a Prometheus with the compressed rules that scrapes it.
 */
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { crashPostgres, startPostgres } from '../../../../scripts/services/postgres.ts'
import { type Answer, createSite, type Site } from '../child.ts'
import { openSandbox, type SandboxProcess } from '../guarantees/sandbox-process.ts'
import { type Prometheus, startPrometheus } from './prometheus.ts'
import { scaledRules } from './rules.ts'

export interface LiveOptions {
  /**
   * Size of the disk of the store, MiB; memory is taken by what is written alone. @defaultValue 8192: in a
   * day of the rules, 24 minutes, ordinary traffic writes some 600
   */
  readonly diskMib?: number
  /** More keys of the pool of sms, which has one account unless they say otherwise. */
  readonly sms?: object
  /** More tenants. */
  readonly tenants?: object
  readonly policy?: object
  /** More keys of the configuration. */
  readonly config?: object
  /** True lets `slowCommits` take effect. */
  readonly slowable?: boolean
  /** True for a store on a PostgreSQL of its own, which `crashPostgres` takes away. */
  readonly postgres?: boolean
  /** Divides the durations of the rules. */
  readonly divisor: number
}

export interface Live {
  readonly site: Site
  readonly sandbox: SandboxProcess
  readonly prometheus: Prometheus
  /** Posts a notification to a recipient of its own. */
  post(channel: string, more?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
  /** Writes bytes beside the store, as another program would; returns how many had room. */
  fillDisk(bytes: number): number
  /** Makes every durable commit slow from now on. */
  slowCommits(): void
  crashPostgres(): Promise<void>
}

const slowCommits = new URL('./slow-commits.ts', import.meta.url).href
/** Interval of scrapes and evaluations. */
const interval = '250ms'
/** Interval of ordinary notifications, ms. */
const trafficMs = 50

export async function openLive(t: Pick<TestContext, 'after'>, options: LiveOptions): Promise<Live> {
  const disk = mkdtempSync(join(tmpdir(), 'sluice-alerts-'))
  mountDisk(disk, options.diskMib ?? 8_192)
  t.after(() => {
    execFileSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true, force: true })
  })
  const postgres = options.postgres === true ? await startPostgres() : undefined
  t.after(() => postgres?.stop())
  const slowFile = join(disk, 'slow')
  const sandbox = await openSandbox(t)
  const account = (id: string, more: object = {}) => ({ id, url: `${sandbox.url}/hook/${id}`, ...more })
  const site = await createSite(t, {
    folder: join(disk, 'site'),
    policy: { version: 1, limits: [], ...options.policy },
    config: {
      pools: {
        email: { provider: 'webhook', accounts: [account('mail-1'), account('mail-2')] },
        sms: { provider: 'webhook', accounts: [account('sms-1', { rate: '50/s' })], ...options.sms },
        push: {
          provider: 'webhook',
          accounts: [1, 2, 3, 4, 5].map((number) => account(`push-${number}`, { rate: '100/s' })),
        },
      },
      tenants: {
        default: { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' },
        ...options.tenants,
      },
      ...(postgres === undefined ? {} : { store: postgres.url }),
      ...options.config,
    },
    ...(options.slowable === true
      ? { env: { NODE_OPTIONS: `--import ${slowCommits}`, SLUICE_TEST_SLOW_COMMITS: slowFile } }
      : {}),
  })
  await site.start()

  let serial = 0
  const post: Live['post'] = (channel, more = {}, headers = {}) => {
    serial += 1
    const id = `recipient-${serial}`
    const recipient = { id, email: `${id}@example.com`, phone: '+391234567890', pushToken: `token-${serial}` }
    const body = { recipient, channel, content: { subject: 'Hello', text: `number ${serial}` }, ...more }
    return site.call('POST', '/api/v1/notifications', body, headers)
  }
  const rulesFile = join(disk, 'rules.yaml')
  writeFileSync(rulesFile, scaledRules(options.divisor))
  const target = site.url
  const prometheus = await startPrometheus(t, { target, rulesFile, interval, lookback: '5s' })
  await isScraped(prometheus)
  let isOpen = true
  const traffic = (async () => {
    while (isOpen) {
      await Promise.all([post('email').catch(() => undefined), sleep(trafficMs)])
    }
  })()
  t.after(async () => {
    isOpen = false
    await traffic
  })

  return {
    site,
    sandbox,
    prometheus,
    post,
    slowCommits: () => writeFileSync(slowFile, ''),
    crashPostgres: () => crashPostgres(postgres!),
    fillDisk(bytes) {
      const descriptor = openSync(join(disk, `filled-${performance.now()}`), 'w')
      let written = 0
      try {
        while (written < bytes)
          written += writeSync(descriptor, Buffer.alloc(Math.min(65_536, bytes - written), 1))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      } finally {
        closeSync(descriptor)
      }
      return written
    },
  }
}

/** Waits for the first scrape: Prometheus looks for its targets every five seconds. */
async function isScraped({ query }: Prometheus): Promise<void> {
  const untilMs = performance.now() + 20_000
  while ((await query('up == 1')).length === 0) {
    if (performance.now() > untilMs) throw new Error('Prometheus does not scrape the gateway')
    await sleep(100)
  }
}

/** Mounts a disk of its own, so that nobody else fills it. Only root may. */
function mountDisk(path: string, mib: number): void {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path], { stdio: 'pipe' })
  } catch (error) {
    rmSync(path, { recursive: true, force: true })
    throw new Error('a disk of its own (tmpfs) cannot be mounted: this command needs root', { cause: error })
  }
}
