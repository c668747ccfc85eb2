/**
 * The latency of POST /notifications beside a replay: rounds without and with one, in turn, on a gateway process of its
 * own over a file. A replay shall raise the 99th percentile to at most 1.5 times in four of five rounds.
 *
 *   node --conditions=sluice-source bench/replay-beside.ts [rounds] [seconds] [perSecond] [recorded]
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
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

/** Posts at a fixed pace; a late answer delays no other. */
async function p99(): Promise<number> {
  const took: number[] = []
  const calls: Promise<void>[] = []
  const begunAt = performance.now()
  for (let index = 0; index < seconds * perSecond; index += 1) {
    const at = begunAt + (index * 1_000) / perSecond
    await wait(Math.max(0, at - performance.now()))
    calls.push(post().then(() => void took.push(performance.now() - at)))
  }
  await Promise.all(calls)
  return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)]!
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
  for (let round = 1; round <= rounds; round += 1) {
    const alone = await p99()
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
    const beside = await p99()
    isOver = true
    await replaying
    if (beside <= 1.5 * alone) within += 1
    console.log(
      `round ${round}: p99 ${alone.toFixed(1)} ms alone, ${beside.toFixed(1)} ms beside a replay, ${(beside / alone).toFixed(2)} times (${done} replays ended)`,
    )
  }
  console.log(`${within} of ${rounds} rounds within 1.5 times`)
} finally {
  gateway.kill('SIGTERM')
  await new Promise((resolve) => gateway.once('exit', resolve))
  rmSync(folder, { recursive: true })
}
