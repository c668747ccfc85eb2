/**
 * The latency of POST /notifications beside a replay, on a gateway process of its own over a file. A replay shall raise the
 * 99th percentile to at most 1.5 times in four of five rounds. In a round the replay is stopped and let go on by turns, every
 * second, so that what else slows the machine or its disk meets both halves alike. A file that is written and flushed by
 * another process tells the two apart: where it is slower beside the replay, too, the disk is.
 *
 *   node --conditions=sluice-source bench/replay-beside.ts [rounds] [seconds of each half] [perSecond] [recorded]
 *
 * The record and that file are below TMPDIR: `TMPDIR=/dev/shm` has them in memory. Linux only.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const [rounds = 5, seconds = 10, perSecond = 100, recorded = 4_000] = process.argv.slice(2).map(Number)
const folder = mkdtempSync(join(tmpdir(), 'sluice-replay-'))
writeFileSync(
  join(folder, 'sluice.yaml'),
  'http: { port: 18499 }\nlog: { level: error }\ntenants: { default: { rate: unlimited, modules: unlimited } }\n',
)
const main = fileURLToPath(new URL('../packages/gateway/src/main.ts', import.meta.url))
const gateway = spawn(process.execPath, ['--conditions=sluice-source', main, 'serve'], {
  cwd: folder,
  stdio: 'inherit',
})
/** Writes 8 KiB and flushes them, fifty times a second, and tells how long each took, ms. */
const flushing = `
  import { fsyncSync, openSync, writeSync } from 'node:fs'
  const file = openSync(${JSON.stringify(join(folder, 'flushed'))}, 'w')
  const bytes = Buffer.alloc(8192, 1)
  setInterval(() => {
    const begunAt = performance.now()
    writeSync(file, bytes, 0, bytes.length, 0)
    fsyncSync(file)
    process.send(performance.now() - begunAt)
  }, 20)`
const flusher = spawn(process.execPath, ['--input-type=module', '--eval', flushing], {
  stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
})
const base = 'http://127.0.0.1:18499/api/v1'
const ask = async (method: string, path: string, body?: unknown) => {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(base + path, {
    method,
    ...(body === undefined ? {} : { headers, body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) }
}
let posted = 0
const post = () => {
  posted += 1
  const recipient = { id: `person-${posted % 500}`, email: `${posted % 500}@example.com` }
  const content = { subject: 's', text: `text ${posted}` }
  return ask('POST', '/notifications', {
    recipient,
    channel: 'email',
    category: posted % 3 ? 'product' : 'marketing',
    content,
  })
}

type Half = 'alone' | 'beside'

/** The process of the replay that is under way, a child of the gateway. */
function replayProcess(): number | undefined {
  const children = readFileSync(`/proc/${gateway.pid}/task/${gateway.pid}/children`, 'utf8').trim()
  return children === '' ? undefined : Number(children.split(' ')[0])
}

/** Bytes that a process has read from and written to disks; 0 where it has ended. */
function diskBytesOf(pid: number): number {
  try {
    const found = readFileSync(`/proc/${pid}/io`, 'utf8').matchAll(/^(?:read|write)_bytes: (\d+)$/gm)
    return [...found].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
  } catch {
    return 0
  }
}

/** Posts at a fixed pace, and stops or continues the replay every second; a late answer delays no other. */
async function round() {
  const took: Record<Half, number[]> = { alone: [], beside: [] }
  const flushed: Record<Half, number[]> = { alone: [], beside: [] }
  let half: Half = 'alone'
  let pid: number | undefined
  let diskBytes = 0
  function turn(next: Half): void {
    half = next
    const found = replayProcess()
    if (found !== undefined) {
      pid = found
      process.kill(found, next === 'beside' ? 'SIGCONT' : 'SIGSTOP')
      diskBytes = Math.max(diskBytes, diskBytesOf(found))
    }
  }
  flusher.on('message', (ms: number) => flushed[half].push(ms))
  const calls: Promise<void>[] = []
  const begunAt = performance.now()
  for (let index = 0; index < 2 * seconds * perSecond; index += 1) {
    const at = begunAt + (index * 1_000) / perSecond
    await wait(Math.max(0, at - performance.now()))
    if (index % perSecond === 0) turn((index / perSecond) % 2 === 0 ? 'alone' : 'beside')
    const own = half
    // A replay that begins in the half without one waits for the other.
    if (half === 'alone' && replayProcess() !== pid) turn('alone')
    calls.push(post().then(() => void took[own].push(performance.now() - at)))
  }
  await Promise.all(calls)
  turn('beside')
  flusher.removeAllListeners('message')
  const p99 = (of: number[]): number => of.sort((a, b) => a - b)[Math.floor(of.length * 0.99)] ?? 0
  return {
    alone: p99(took.alone),
    beside: p99(took.beside),
    flushAlone: p99(flushed.alone),
    flushBeside: p99(flushed.beside),
    diskBytes,
  }
}

try {
  for (
    let look = 0;
    look < 100 &&
    !(await ask('GET', '/policy')
      .then(({ status }) => status === 200)
      .catch(() => false));
    look += 1
  )
    await wait(200)
  for (let first = 0; first < recorded; first += 100) await Promise.all(Array.from({ length: 100 }, post))
  const policy = { version: 1, limits: [{ name: 'all', for: 'any', max: ['2/day'], over: 'drop' }] }
  let within = 0
  for (let number = 1; number <= rounds; number += 1) {
    let isOver = false
    let done = 0
    const replaying = (async () => {
      while (!isOver) {
        const period = { from: new Date(Date.now() - 86_400_000).toISOString(), to: new Date().toISOString() }
        const { body } = await ask('POST', '/replays', { ...period, policy })
        for (let status: unknown = 'running'; status === 'running' && !isOver; await wait(200))
          status = (await ask('GET', `/replays/${body.replayId}`)).body.status
        if (isOver) await ask('DELETE', `/replays/${body.replayId}`)
        else done += 1
      }
    })()
    while (replayProcess() === undefined) await wait(50)
    const { alone, beside, flushAlone, flushBeside, diskBytes } = await round()
    isOver = true
    await replaying
    if (beside <= 1.5 * alone) within += 1
    console.log(
      `round ${number}: p99 ${alone.toFixed(1)} ms alone, ${beside.toFixed(1)} ms beside a replay, ${(beside / alone).toFixed(2)} times (${done} replays ended; p99 of a flush elsewhere ${flushAlone.toFixed(1)} and ${flushBeside.toFixed(1)} ms; the replay read and wrote ${diskBytes} bytes of the disk)`,
    )
  }
  console.log(`${within} of ${rounds} rounds within 1.5 times`)
} finally {
  flusher.kill()
  gateway.kill('SIGTERM')
  await new Promise((resolve) => gateway.once('exit', resolve))
  rmSync(folder, { recursive: true })
}
