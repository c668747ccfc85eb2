/**
 * Real engines for tests and for trying things out, on this machine, without containers:
 * `npm run services -- start redis`, `stop`, `status`, `run redis postfix -- node --test …`.
 * What a shell should read goes to stdout, what a person should read to stderr.
 */
import { spawn } from 'node:child_process'
import { misused } from '../runner/arguments.ts'
import { engines } from './engines.ts'
import { isAlive } from './process.ts'
import { records, type Service, stopOrphans, stopRecord } from './service.ts'

const usage = `Usage: npm run services -- <command>
  start <engine…>             start and leave running; prints the environment to export
  stop [engine…]              stop what "start" started (all of it by default)
  status                      what runs
  run <engine…> -- <command>  start, run the command with their environment, stop
Engines: ${Object.keys(engines).join(', ')}`

async function main(words: string[]): Promise<number> {
  const [command, ...rest] = words
  await stopOrphans()
  switch (command) {
    case 'start':
      return start(known(rest))
    case 'stop':
      return stop(rest.length > 0 ? known(rest) : Object.keys(engines))
    case 'status':
      return status()
    case 'run': {
      const dashes = rest.indexOf('--')
      if (dashes < 1 || dashes === rest.length - 1) misused(usage, 'run wants engines, "--", and a command')
      return runWith(known(rest.slice(0, dashes)), rest.slice(dashes + 1))
    }
    case 'help':
    case '--help':
      console.log(usage)
      return 0
    default:
      misused(usage, command ? `there is no command "${command}"` : 'which command?')
  }
}

function known(names: string[]): string[] {
  if (names.length === 0) misused(usage, 'which engine?')
  for (const name of names) if (!(name in engines)) misused(usage, `there is no engine "${name}"`)
  return names
}

async function start(names: string[]): Promise<number> {
  for (const name of names) {
    const running = kept().find(({ record }) => record.name === name && record.processes.every(isAlive))
    const service = running?.record ?? (await engines[name]!.start({ keep: true }))
    console.error(`${name} ${running ? 'was running already' : 'runs'}: ${service.url}`)
    for (const [key, value] of Object.entries(service.env)) console.log(`export ${key}='${value}'`)
  }
  return 0
}

async function stop(names: string[]): Promise<number> {
  const mine = kept().filter(({ record }) => names.includes(record.name))
  await Promise.all(mine.map(({ file, record }) => stopRecord(file, record)))
  console.error(
    mine.length > 0 ? `stopped ${mine.map(({ record }) => record.name).join(', ')}` : 'nothing to stop',
  )
  return 0
}

function status(): number {
  const all = records()
  if (all.length === 0) console.log('nothing runs')
  for (const { record } of all) {
    const health = record.processes.every(isAlive) ? 'runs' : 'has ended'
    const owner = record.owner ? ` for process ${record.owner.pid}` : ''
    const pids = record.processes.map(({ pid }) => pid).join(', ')
    console.log(`${record.name} ${health}${owner}: ${record.url} (pid ${pids})`)
  }
  return 0
}

async function runWith(names: string[], [command, ...args]: string[]): Promise<number> {
  const started: Service[] = []
  try {
    for (const name of names) started.push(await engines[name]!.start({}))
    const env = Object.assign({}, process.env, ...started.map((service) => service.env))
    const child = spawn(command as string, args, { stdio: 'inherit', env })
    // A terminal's Ctrl-C reaches the child as well: we only have to stay for the cleaning up.
    process.on('SIGINT', () => {})
    process.on('SIGTERM', () => child.kill('SIGTERM'))
    return await new Promise<number>((resolve, reject) => {
      child.on('error', reject)
      child.on('exit', (code) => resolve(code ?? 1))
    })
  } finally {
    await Promise.all(started.map((service) => service.stop()))
  }
}

/** Services started to stay; others belong to a process that stops them itself. */
function kept() {
  return records().filter(({ record }) => !record.owner)
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
}
