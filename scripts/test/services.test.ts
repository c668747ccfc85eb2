/**
 * The engines themselves: each comes up, answers, and leaves nothing behind; a killed starter's engine is found
 * and stopped by the next command.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, utimesSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { EngineMissing, ensureInstalled } from '../services/install.ts'
import { firstWords, freePort, reserve } from '../services/port.ts'
import { readMaildir, startMailServer } from '../services/postfix.ts'
import { crashPostgres, startPostgres } from '../services/postgres.ts'
import { isAlive, markOf, type ProcessMark, stopProcess } from '../services/process.ts'
import { startRabbitmq } from '../services/rabbitmq.ts'
import { startRedis } from '../services/redis.ts'
import { startRedisCluster } from '../services/redis-cluster.ts'
import { sentinelMaster, startRedisSentinel } from '../services/redis-sentinel.ts'
import { records } from '../services/service.ts'
import { startValkey } from '../services/valkey.ts'

const portOf = (url: string) => Number(new URL(url).port)
const redis = (url: string, ...words: string[]) =>
  execFileSync('redis-cli', ['-p', new URL(url).port, ...words], { encoding: 'utf8' }).trim()

test('Redis answers, and stopping it leaves neither a process, a folder nor a record', async () => {
  const service = await startRedis()
  assert.equal(service.env.SLUICE_TEST_REDIS, service.url)
  assert.equal(redis(service.url, 'SET', 'a', '1'), 'OK')
  assert.ok(records().some(({ record }) => record.url === service.url))
  await service.stop()
  assert.equal(markOf(service.pid), undefined)
  assert.equal(existsSync(service.folder), false)
  assert.ok(!records().some(({ record }) => record.url === service.url))
  await service.stop()
})

test('Redis killed and started again in the same folder has its data', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-redis-kept-'))
  try {
    const first = await startRedis({ folder, args: ['--appendfsync', 'always'] })
    redis(first.url, 'SET', 'a', '1')
    process.kill(first.pid, 'SIGKILL')
    await first.stop()
    const second = await startRedis({ folder, port: portOf(first.url) })
    assert.equal(second.url, first.url)
    assert.equal(redis(second.url, 'GET', 'a'), '1')
    await second.stop()
    assert.equal(existsSync(folder), true, 'a folder that was given is not taken away')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('PostgreSQL crashed and started again in the same folder has what was committed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-kept-'))
  const ask = (url: string, text: string) =>
    execFileSync('psql', ['-X', '-A', '-t', '-d', url, '-c', text], { encoding: 'utf8' }).trim()
  try {
    const first = await startPostgres({ folder })
    assert.equal(ask(first.url, 'SHOW fsync'), 'on')
    ask(first.url, 'CREATE TABLE kept AS SELECT 42 AS a')
    await crashPostgres(first)
    await first.stop()
    const second = await startPostgres({ folder, port: portOf(first.url) })
    assert.equal(ask(second.url, 'SELECT a FROM kept'), '42')
    await second.stop()
    assert.equal(markOf(second.pid), undefined)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a frozen Redis can be stopped', async () => {
  const service = await startRedis()
  process.kill(service.pid, 'SIGSTOP')
  await service.stop()
  assert.equal(markOf(service.pid), undefined)
})

test('an engine that cannot start says why', async () => {
  // It may have ended before it is looked at for the first time.
  await assert.rejects(
    startRedis({ args: ['--no-such-flag', 'x'] }),
    /redis: .* (never came|ended at once)[\s\S]*no-such-flag/,
  )
})

test('three Redis masters form a cluster', async () => {
  const cluster = await startRedisCluster()
  const urls = cluster.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
  assert.equal(urls.length, 3)
  for (const url of urls) assert.match(redis(url, 'CLUSTER', 'INFO'), /cluster_slots_ok:16384/)
  await cluster.stop()
})

test('a replica takes over where Sentinel misses the master', async () => {
  const service = await startRedisSentinel()
  const master = () => redis(service.url, 'SENTINEL', 'GET-MASTER-ADDR-BY-NAME', sentinelMaster)
  const before = master()
  process.kill(service.pid, 'SIGKILL')
  const patienceEnds = Date.now() + 20_000
  while (master() === before && Date.now() < patienceEnds) await wait(50)
  assert.notEqual(master(), before)
  await service.stop()
  assert.ok(!records().some(({ record }) => record.url === service.url))
})

test('Valkey answers by the name of Valkey', async () => {
  const service = await startValkey()
  assert.match(redis(service.url, 'INFO', 'server'), /valkey_version:[89]/)
  await service.stop()
})

test('RabbitMQ answers, and stopping it leaves neither the broker nor its port mapper', async () => {
  const service = await startRabbitmq()
  const greeting = await firstWords(portOf(service.url), 'AMQP\0\0\t\u0001')
  assert.match(greeting!, /RabbitMQ/)
  const { processes } = records().find(({ record }) => record.url === service.url)!.record
  assert.equal(processes.length, 2)
  assert.equal(processes[1]!.pid, service.pid)
  await service.stop()
  assert.equal(processes.some(isAlive), false)
  assert.equal(existsSync(service.folder), false)
})

test('the mail server delivers UTF-8 mail byte for byte, refuses what it should, and sends nothing on', async () => {
  const server = await startMailServer()
  const body = 'Subject: Grüße ✓\r\nX-Notification-Id: 7\r\n\r\nhé\r\n'
  const replies = await dialogue(portOf(server.url), [
    'EHLO localhost',
    'MAIL FROM:<a@example.test> SMTPUTF8',
    'RCPT TO:<unknown@example.test>',
    'RCPT TO:<full@mailbox.test>',
    'RCPT TO:<greylisted@mailbox.test>',
    'RCPT TO:<ada@elsewhere.example>',
    'RCPT TO:<josé@mailbox.test>',
    'DATA',
    `${body}.`,
    'QUIT',
  ])
  assert.deepEqual(
    replies.slice(3, 8).map((reply) => reply.slice(0, 9)),
    ['550 5.1.1', '452 4.2.2', '450 4.7.1', '554 5.7.1', '250 2.1.5'],
  )
  const maildir = server.env.SLUICE_TEST_MAILDIR!
  while (readMaildir(maildir).length === 0) await wait(20)
  const [mail, ...others] = readMaildir(maildir)
  assert.equal(others.length, 0)
  assert.equal(mail!.deliveredTo, 'josé@mailbox.test')
  assert.ok(mail!.raw.endsWith(body.replaceAll('\r\n', '\n')), 'Maildir keeps lines with a bare line feed')
  await server.stop()
  assert.equal(markOf(server.pid), undefined)
})

/** Says each line when the server has answered the one before; the replies, the greeting first. */
async function dialogue(port: number, lines: readonly string[]): Promise<string[]> {
  const socket = connect(port, '127.0.0.1').setEncoding('utf8')
  const replies: string[] = []
  let text = ''
  socket.on('data', (more) => {
    text += more
    if (!/^\d{3} .*\r\n$/m.test(text)) return
    replies.push(text)
    text = ''
    const next = lines[replies.length - 1]
    if (next !== undefined) socket.write(`${next}\r\n`)
  })
  await once(socket, 'close')
  return replies
}

test('an engine whose starter was killed is stopped by the next command', async () => {
  const file = new URL('../services/redis.ts', import.meta.url).href
  const code = `const { startRedis } = await import(${JSON.stringify(file)})
    console.log((await startRedis()).url)
    process.stdin.resume().on('end', () => process.exit())`
  const starter = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['pipe', 'pipe', 'inherit'], // it ends with this test, whatever becomes of it
  })
  const url = String((await once(starter.stdout!, 'data'))[0]).trim()
  starter.kill('SIGKILL')
  await once(starter, 'exit')
  const left = records().find(({ record }) => record.url === url)!.record
  assert.equal(left.processes.every(isAlive), true)
  const command = fileURLToPath(new URL('../services.ts', import.meta.url))
  assert.equal(spawnSync(process.execPath, [command, 'status']).status, 0)
  assert.equal(left.processes.some(isAlive), false)
  assert.equal(existsSync(left.folder), false)
})

test('a command runs with the environment of its engines, and its exit code is ours', async () => {
  const command = fileURLToPath(new URL('../services.ts', import.meta.url))
  const script = 'console.log(process.env.SLUICE_TEST_REDIS); process.exitCode = 7'
  const args = [command, 'run', 'redis', '--', process.execPath, '-e', script]
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  assert.equal(status, 7)
  const port = portOf(stdout.trim())
  assert.equal(await firstWords(port, 'PING\r\n'), undefined, 'Redis has ended with the command')
  const wrong = spawnSync(process.execPath, [command, 'start', 'oracle'], { encoding: 'utf8' })
  assert.equal(wrong.status, 2)
  assert.match(wrong.stderr, /no engine "oracle"[\s\S]*Usage/)
})

test('a pid that was given away again is not ours to stop', async () => {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
  await once(child, 'spawn')
  const earlier: ProcessMark = { pid: child.pid!, started: 'another time' }
  await stopProcess(earlier)
  assert.ok(markOf(child.pid!), 'it runs on')
  child.kill()
})

test('an engine that cannot be installed here names the way out', async () => {
  const path = process.env.PATH
  process.env.PATH = ''
  try {
    const need = { engine: 'oracle', commands: ['oracle-server'], packages: ['oracle-package'] }
    const saysWay = (error: unknown) =>
      error instanceof EngineMissing && /oracle-package[\s\S]*compose\.yaml/.test(error.message)
    await assert.rejects(() => ensureInstalled(need), saysWay)
  } finally {
    process.env.PATH = path
  }
})

test('ports lie below those that the system hands out', async () => {
  const port = await freePort([10_000])
  assert.ok(port >= 12_000 && port + 10_000 < 32_768)
})

test('a port that was handed out is kept for its engine until that had time to start', (t) => {
  const port = 11_999
  const file = fileURLToPath(new URL(`../../.services/ports/${port}`, import.meta.url))
  const forget = (): void => rmSync(file, { force: true })
  forget()
  t.after(forget)
  assert.deepEqual([reserve(port), reserve(port)], [true, false])
  const minutesAgo = new Date(Date.now() - 5 * 60_000)
  utimesSync(file, minutesAgo, minutesAgo)
  assert.equal(reserve(port), true)
})

test('the ports beside a port that was handed out are kept too', async () => {
  assert.equal(reserve((await freePort([1])) + 1), false)
})
