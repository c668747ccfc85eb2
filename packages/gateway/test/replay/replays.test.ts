/** Replays of a running gateway: in a process beside it, one at a time, paused while notifications are late. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { createRandom } from '../../src/adapters/random.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { createReplays } from '../../src/replay/replays.ts'
import { temporaryFolder } from '../config/folder.ts'
import { childrenOf } from '../process-tree.ts'

const yaml = `
http: { port: 0 }
log: { level: silent }
tenants: { default: { rate: unlimited, modules: unlimited } }
`
const people = 20
/** Looks, 100 ms apart, at a replay that has the lowest priority on a machine that tests keep busy. */
const looksMax = 1_200
const open = { version: 1, limits: [] }
const tight = { version: 1, limits: [{ name: 'tight', for: 'any', max: ['1/day'], over: 'drop' }] }

test('a gateway replays what its file has on record while it writes more, one replay at a time', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? {} : JSON.parse(text) }
  }
  const post = (each: number) =>
    ask('POST', '/notifications', {
      recipient: { id: `person-${each % people}`, email: `${each % people}@example.com` },
      channel: 'email',
      content: { subject: 's', text: `text ${each}` },
    })
  for (let each = 0; each < 2 * people; each += 1) assert.equal((await post(each)).status, 202)
  await wait(2)
  const period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date().toISOString() }
  const started = await ask('POST', '/replays', { ...period, policy: tight })
  assert.equal(started.status, 202, JSON.stringify(started.body))
  const second = await ask('POST', '/replays', { ...period, policy: open })
  assert.deepEqual([second.status, second.body.code], [429, 'REQUEST_LIMIT_EXCEEDED'])
  let found = await ask('GET', `/replays/${started.body.replayId}`)
  for (let look = 0; look < looksMax && found.body.status === 'running'; look += 1) {
    await wait(100)
    assert.equal((await post(2 * people + look)).status, 202)
    found = await ask('GET', `/replays/${started.body.replayId}`)
  }
  assert.equal(found.body.status, 'done', JSON.stringify(found.body))
  const { requests, fidelity, matrix, a, b } = found.body.result
  assert.equal(requests, 2 * people)
  assert.equal(fidelity.share, 1, JSON.stringify(fidelity))
  assert.deepEqual([a.kinds.at_once, b.kinds.dropped], [2 * people, people])
  assert.equal(matrix.at_once.dropped, people)
  assert.equal((await ask('DELETE', `/replays/${started.body.replayId}`)).status, 204)
  assert.equal((await ask('GET', `/replays/${started.body.replayId}`)).status, 404)

  // The test speaks to the process as the gateway does; a gateway that is killed closes the channel.
  const begin = async (linesMax: number) => {
    const program = new URL('../../src/replay/replay-process.ts', import.meta.url)
    const child = fork(program, { execArgv: ['--conditions=sluice-source'], serialization: 'advanced' })
    t.after(() => child.kill('SIGKILL'))
    const config = { kind: 'sqlite', path: join(cwd, 'data', 'sluice.db') }
    const times = { from: Date.now() - 3_600_000, to: Date.now(), now: Date.now() }
    const policies = { policy: open, against: open, selfAddressed: [] }
    child.send({ config, skipsNameCheck: false, ...times, ...policies, linesMax })
    assert.deepEqual(await once(child, 'message'), [{ progress: 0 }, undefined])
    return child
  }
  const [paused, large] = await Promise.all([begin(1_000), begin(10)])
  const ended = once(paused, 'exit')
  paused.disconnect()
  assert.deepEqual(await ended, [0, null], 'a replay ends with its gateway, also while it pauses')
  large.send('go')
  const refusal = { failed: 'There are more than 10 requests: replay a sample.' }
  assert.deepEqual(await once(large, 'message'), [refusal, undefined])
})

test('a replay waits while notifications are late, sees a store in memory, and ends when it is removed', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
  const gateway = await createGateway(loadConfig({ cwd, env: { SLUICE_STORE: 'sqlite::memory:' } }))
  await gateway.startStages()
  t.after(() => gateway.stop())
  const draft = {
    to: { id: 'ada', email: 'ada@example.com' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: 's', text: 't' },
  } as const
  await gateway.gate.admit({ caller: { tenant: 'acme', module: 'shop' }, drafts: [draft] })
  let isLate = true
  const looks: (() => void)[] = []
  const request = {
    from: Date.now() - 3_600_000,
    to: Date.now() + 1,
    policy: compilePolicy(open),
    against: compilePolicy(open),
    isLate() {
      for (const look of looks.splice(0)) look()
      return isLate
    },
  }
  const lookedAt = () => new Promise<void>((resolve) => looks.push(resolve))
  const first = await gateway.replays.start(request)
  await lookedAt()
  await lookedAt()
  assert.equal((await gateway.replays.find(first.id))?.status, 'running', 'it pauses')
  isLate = false
  for (
    let look = 0;
    look < looksMax && (await gateway.replays.find(first.id))?.status === 'running';
    look += 1
  )
    await wait(100)
  const done = await gateway.replays.find(first.id)
  assert.deepEqual([done?.status, done?.result?.requests], ['done', 1], JSON.stringify(done))
  isLate = true
  const second = await gateway.replays.start(request)
  await lookedAt()
  const [child, ...others] = childrenOf(process.pid)
  assert.ok(child !== undefined && others.length === 0, 'it runs')
  const threads = readdirSync(`/proc/${child}/task`).map((thread) => getPriority(Number(thread)))
  assert.deepEqual([...new Set(threads)], [19], 'each thread of it has the lowest priority')
  assert.equal(await gateway.replays.remove(second.id), true)
  assert.deepEqual(childrenOf(process.pid), [], 'nothing of it runs on')
  assert.equal(await gateway.replays.remove(second.id), false)
})

test('a replay that is larger than its bound fails, says why, and leaves room for the next', async () => {
  const policy = compilePolicy(open)
  const [clock, random] = [createSystemClock(), createRandom()]
  const source = {
    tenants: async () => [],
    page: async () => ({ items: [], nextCursor: null }),
    recipients: async () => [],
  }
  const replays = createReplays({
    config: { kind: 'sqlite', path: ':memory:' },
    record: source,
    policy,
    selfAddressed: new Set(),
    clock,
    random,
    bounds: { heapMib: 8, linesMax: 1_000 },
  })
  for (let time = 0; time < 2; time += 1) {
    const { id } = await replays.start({ from: 0, to: 1, policy, isLate: () => false })
    for (let look = 0; look < looksMax && (await replays.find(id))?.status === 'running'; look += 1)
      await wait(20)
    const { status, detail } = (await replays.find(id))!
    assert.equal(status, 'failed')
    assert.equal(detail, 'It needs more than 8 MiB: replay a shorter period or a sample.')
  }
})
