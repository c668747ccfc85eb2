/**
 * Real processes over one record are killed and stopped: nothing is lost, what a dead one held is taken over in time, and
 * what a stopped one still sends is refused. `SLUICE_FLEET_BEAT_MS=2000 SLUICE_FLEET_KILLS=20` is the long form, with
 * the beats of operation.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { seeded, testSeed } from '../../harness.ts'
import { ask, dropSchemas, joinAt, schemaUrl } from './database.ts'

const beatMs = Number(process.env.SLUICE_FLEET_BEAT_MS ?? 300)
const kills = Number(process.env.SLUICE_FLEET_KILLS ?? 3)
/** Six beats of silence, one until the look, one until the takeover, and a busy machine. */
const takeoverMaxMs = Math.max(10_000, 15 * beatMs)
const atOnce = 20
const worker = fileURLToPath(new URL('./fleet-worker.ts', import.meta.url))

interface Worker {
  readonly child: ChildProcess
  readonly lines: string[]
  member(): string
}

async function until(condition: () => boolean | Promise<boolean>, forMs: number, what: string) {
  const end = performance.now() + forMs
  while (!(await condition())) {
    assert.ok(performance.now() < end, `within ${forMs} ms: ${what}`)
    await sleep(50)
  }
}

/** A record with its file of calls, and the processes that are started on it. */
async function setUp(t: TestContext, name: string) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fleet-'))
  const calls = join(folder, 'calls')
  writeFileSync(calls, '')
  const url = schemaUrl(name)
  // The schema is made before the first of them starts.
  const first = await joinAt(url, createSystemClock(), { beatMs })
  await first.members.close()
  await first.store.close()
  const workers: Worker[] = []
  t.after(() => {
    for (const { child } of workers) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  async function start(total: number): Promise<Worker> {
    const child = spawn(
      process.execPath,
      ['--conditions=sluice-source', worker, url, calls, String(total), String(beatMs)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const lines: string[] = []
    createInterface({ input: child.stdout! }).on('line', (line) => lines.push(line))
    const own: Worker = { child, lines, member: () => lines[0]?.split(' ')[1] ?? '' }
    workers.push(own)
    await until(() => own.member() !== '', 20_000, 'a process joins')
    return own
  }
  /** True once a process is dead and nothing is held by it. */
  const isOver = async (member: string): Promise<boolean> =>
    (await ask(url, `SELECT FROM live WHERE owner = ${member} LIMIT 1`)).length === 0 &&
    (await ask(url, `SELECT FROM member WHERE id = ${member} AND state IN (1, 2)`)).length === 0
  /** Waits until everything has ended, and tells what was called. */
  async function ended(): Promise<{
    readonly accepted: readonly string[]
    readonly called: readonly string[]
  }> {
    const hasEnded = async () => (await ask(url, 'SELECT FROM live LIMIT 1')).length === 0
    await until(hasEnded, 2 * takeoverMaxMs + 20_000, 'everything ends')
    const rows = await ask(url, 'SELECT id, status FROM outcome')
    assert.ok(rows.every(({ status }) => status === 6))
    const onRecord = new Set(rows.map(({ id }) => id as string))
    const accepted = workers.flatMap(({ lines }) =>
      lines.filter((line) => line.startsWith('accepted ')).flatMap((line) => line.split(' ').slice(1)),
    )
    assert.deepEqual(
      accepted.filter((id) => !onRecord.has(id)),
      [],
      'an acceptance was lost',
    )
    return { accepted, called: readFileSync(calls, 'utf8').trim().split('\n') }
  }
  return { start, isOver, ended }
}

describe('processes over PostgreSQL that are killed and stopped', needs('postgres'), () => {
  after(dropSchemas)

  test(`loses nothing through ${kills} kills, and takes over in time`, { timeout: 600_000 }, async (t) => {
    t.diagnostic(`seed ${testSeed}`)
    const chance = seeded(testSeed)
    const { start, isOver, ended } = await setUp(t, 'kills')
    let [victim, other] = [await start(100_000), await start(100_000)]
    const tookMs: number[] = []
    for (let kill = 0; kill < kills; kill += 1) {
      await sleep(300 + chance() * 700)
      const killedAt = performance.now()
      victim.child.kill('SIGKILL')
      const gone = victim
      victim = other
      other = await start(100_000)
      await until(() => isOver(gone.member()), takeoverMaxMs, 'what it held is taken over')
      tookMs.push(performance.now() - killedAt)
    }
    for (const { child } of [victim, other]) child.kill('SIGKILL')
    await start(0)
    const { accepted, called } = await ended()
    const doubles = called.length - new Set(called).size
    t.diagnostic(
      `${accepted.length} accepted, ${doubles} called twice, taken over in ${tookMs.map((ms) => ms.toFixed(0)).join(', ')} ms`,
    )
    assert.ok(doubles <= (kills + 2) * atOnce, `${doubles} doubles`)
    assert.deepEqual(accepted.filter((id) => !called.includes(id)).length, 0)
  })

  test('refuses what a process sends that was stopped until it was declared dead, and that process ends', {
    timeout: 120_000,
  }, async (t) => {
    const { start, isOver, ended } = await setUp(t, 'stops')
    const stopped = await start(100_000)
    await until(() => stopped.lines.length > 5, 20_000, 'it works')
    stopped.child.kill('SIGSTOP')
    const other = await start(0)
    await until(() => isOver(stopped.member()), takeoverMaxMs, 'it is taken over')
    const code = new Promise((resolve) => stopped.child.on('exit', resolve))
    stopped.child.kill('SIGCONT')
    assert.equal(await code, 3)
    assert.equal(stopped.lines.filter((line) => line === 'dead').length, 1)
    const { accepted, called } = await ended()
    const doubles = called.length - new Set(called).size
    t.diagnostic(`${accepted.length} accepted, ${doubles} called twice, ${other.lines.join(', ')}`)
    assert.ok(doubles <= atOnce, `${doubles} doubles`)
  })
})
