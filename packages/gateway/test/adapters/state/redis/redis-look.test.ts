/** Looks at real servers: what is found of each, and a sentence with the way out for each fault. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { freePort } from '../../../../../../scripts/services/port.ts'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../../../scripts/services/redis-cluster.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { isUnreachable, lookAtRedis } from '../../../../src/adapters/state/redis/redis-look.ts'
import { createRedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { onceScript } from '../../../../src/adapters/state/redis/scripts.ts'
import { readStateAddress } from '../../../../src/config/state-address.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'

const look = (address: string, onSlow?: (detail: string) => void) =>
  lookAtRedis({
    ...readStateAddress(address, (path) => readFileSync(path, 'utf8')),
    usesChannels: true,
    now: Date.now,
    onSlow,
  })

const refused = (address: string, message: RegExp) =>
  assert.rejects(look(address), (error: Error & { code?: string }) => {
    assert.equal(error.code, 'INVALID_CONFIG')
    assert.match(error.message, message)
    assert.doesNotMatch(error.message, /hunter2/)
    return true
  })

async function server(t: TestContext, args: readonly string[] = []) {
  const service = await startRedis({ args })
  t.after(() => service.stop())
  const admin = new Redis(service.url)
  t.after(() => admin.disconnect())
  return { service, admin, node: service.url.replace('redis://', '') }
}

/** Has a server listen for TLS on a free port; another test may take it in between, so it is tried again. */
async function listenForTls(admin: Redis, triesLeft = 5): Promise<number> {
  const port = await freePort()
  try {
    await admin.config('SET', 'tls-port', String(port))
    return port
  } catch (error) {
    if (triesLeft === 0) throw error
    return listenForTls(admin, triesLeft - 1)
  }
}

// They mostly wait, each on engines or names of its own.
describe('the look at a Redis', { ...needs('redis', 'redis-cluster'), concurrency: 3 }, () => {
  test('tells version, role, eviction, persistence and clock of a server', async (t) => {
    const { service, admin } = await server(t)
    assert.match(
      await look(service.url),
      /^Redis \d+\.\d+\.\d+ at 127\.0\.0\.1:\d+: master; evicts nothing; append-only file; its clock is \d+ ms (ahead of|behind) this machine's; answers in [\d.]+ ms\.$/,
    )
    await admin.config('SET', 'appendonly', 'no')
    assert.match(await look(service.url), /no append-only file, so the limits are read from the store again/)
  })

  test('tells where a server is too far away for the accounts of the pools', async (t) => {
    const { service } = await server(t)
    const proxy = await startProxy(service.url)
    t.after(proxy.close)
    proxy.delayAnswers(6)
    const slow: string[] = []
    const text = await look(proxy.url, (detail) => slow.push(detail))
    assert.match(text, /; answers in \d+\.\d ms at best, and from 5 ms on a busy gateway makes fewer calls/)
    assert.match(
      slow.join(),
      /^127\.0\.0\.1:\d+ answers in .* keep it in the network of the gateways, or give all of them \?slot=\d+ms in the address of the state\.$/,
    )
    const wide: string[] = []
    await look(`${proxy.url}?slot=60ms`, (detail) => wide.push(detail))
    assert.deepEqual(wide, [], 'its answers are quick enough for wider slots')
  })

  test('tells the masters of a cluster', async () => {
    const [url] = process.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
    const node = url!.replace('redis://', '')
    assert.match(await look(`redis-cluster://${node}`), /^Redis Cluster of \d masters\. Redis /)
    await refused(`redis://${node}`, /is a node of a Redis Cluster; write redis-cluster:\/\//)
  })

  test('takes a cluster that has lost a master for away, as a start waits for it', async (t) => {
    const cluster = await startRedisCluster()
    t.after(() => cluster.stop())
    const [first = '', lost = ''] = cluster.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
    const [other, admin] = [new Redis(lost), new Redis(first)]
    t.after(() => void Promise.all([other.disconnect(), admin.disconnect()]))
    const pid = Number(/process_id:(\d+)/.exec(await other.info('server'))![1])
    process.kill(pid, 'SIGSTOP')
    try {
      while (!(await admin.cluster('INFO')).includes('cluster_state:fail')) await sleep(100)
      await assert.rejects(look(first.replace('redis:', 'redis-cluster:')), (error: Error) => {
        assert.match(error.message, /CLUSTERDOWN/)
        assert.ok(isUnreachable(error), error.message)
        return true
      })
    } finally {
      process.kill(pid, 'SIGCONT')
    }
  })

  test('refuses a server that evicts, a replica, a single server as a cluster, and one that is not there', async (t) => {
    const { service, admin, node } = await server(t, [
      '--maxmemory',
      '50mb',
      '--maxmemory-policy',
      'allkeys-lru',
    ])
    await refused(service.url, /evicts values.*Set maxmemory-policy to noeviction\./)
    await admin.config('SET', 'maxmemory', '0')
    assert.match(
      await look(service.url),
      /maxmemory-policy allkeys-lru without a maxmemory, which evicts nothing/,
    )
    await refused(`redis-cluster://${node}`, /is no Redis Cluster; write redis:\/\//)
    const replica = await server(t, ['--replicaof', ...node.split(':')])
    await refused(replica.service.url, new RegExp(`is a replica of ${node}; name the master\\.`))
    await refused('redis://127.0.0.1:1', /cannot be reached \(ECONNREFUSED\); see that Redis runs there/)
  })

  test('says that a server has no memory left, which a start waits for', async (t) => {
    const { service, admin } = await server(t)
    await admin.config('SET', 'maxmemory', '500kb')
    await assert.rejects(look(service.url), (error: Error) => {
      assert.match(error.message, /takes no writes, because its 500\.00K \(maxmemory\) are used/)
      assert.ok(isUnreachable(error))
      return true
    })
  })

  test('takes a proxy that ends each connection for a server that is away', async (t) => {
    const proxy = createServer((socket) => void socket.once('data', () => socket.destroy()))
    await once(proxy.listen(0, '127.0.0.1'), 'listening')
    t.after(() => proxy.close())
    const { port } = proxy.address() as AddressInfo
    for (const scheme of ['redis', 'rediss', 'redis-cluster'])
      await assert.rejects(look(`${scheme}://127.0.0.1:${port}`), (error: Error) => {
        assert.ok(isUnreachable(error), error.message)
        return true
      })
  })

  test('refuses a wrong password, a missing one, and a user without the right to run scripts', async (t) => {
    const { service, admin, node } = await server(t)
    await admin.call('ACL', 'SETUSER', 'sluice', 'on', '>hunter2', '~*', '+@all', '-@scripting')
    await refused(`redis://sluice:hunter2x@${node}`, /refuses the user or the password/)
    await refused(`redis://sluice:hunter2@${node}`, /does not let this user do what is needed/)
    await admin.call('ACL', 'SETUSER', 'other', 'on', '>hunter2', '~other:*', '&*', '+@all')
    await refused(`redis://other:hunter2@${node}`, /needed \(NOPERM .*\); .* ~sl:\* &sl:\* \+@all/)
    assert.match(await look(`redis://other:hunter2@${node}?prefix=other:`), /^Redis /)
    await admin.call('ACL', 'SETUSER', 'silent', 'on', '>hunter2', '~sl:*', 'resetchannels', '+@all')
    await refused(`redis://silent:hunter2@${node}`, /needed \(NOPERM .*channel/)
    const heard = ['&sl:hints', '&sl:peers', '&sl:peers:*']
    for (const [name, ...rights] of [
      ['unhinted', ...heard.slice(1), '+@all'],
      ['alone', ...heard.slice(0, 1), '&sl:peers:*', '+@all'],
      ['deaf', ...heard, '+@all', '-subscribe'],
    ]) {
      await admin.call('ACL', 'SETUSER', name!, 'on', '>hunter2', '~sl:*', 'resetchannels', ...rights)
      await refused(`redis://${name}:hunter2@${node}`, /needed \(NOPERM /)
    }
    const rights = ['~sl:*', 'resetchannels', ...heard, '+@all', '-@dangerous', '+info']
    await admin.call('ACL', 'SETUSER', 'listed', 'on', '>hunter2', ...rights)
    assert.match(await look(`redis://listed:hunter2@${node}`), /^Redis /)
    await refused(`redis://:hunter2@${node}`, /asks for no password; take it out of the address/)
    await admin.config('SET', 'requirepass', 'hunter2')
    await refused(service.url, /wants a password/)
    assert.match(await look(`redis://:hunter2@${node}`), /^Redis /)
  })

  test('ends where a server takes the connection and answers nothing, as where there is none', async (t) => {
    const { service } = await server(t)
    process.kill(service.pid, 'SIGSTOP')
    try {
      await refused(service.url, /cannot be reached \(no answer within 6 s\)/)
      // Over TLS too: that it knows no TLS cannot be told of a server that says nothing.
      await refused(service.url.replace('redis:', 'rediss:'), /cannot be reached/)
    } finally {
      process.kill(service.pid, 'SIGCONT')
    }
  })

  test('asks a server over TLS by its own authority, and says what is wrong with a certificate', async (t) => {
    const { service, node } = await server(t)
    const { folder } = service
    certify(folder)
    const admin = new Redis(service.url)
    t.after(() => admin.disconnect())
    for (const [name, value] of [
      ['tls-cert-file', join(folder, 'server.pem')],
      ['tls-key-file', join(folder, 'server.key')],
      ['tls-ca-cert-file', join(folder, 'ca.pem')],
      ['tls-auth-clients', 'no'],
    ] as const)
      await admin.config('SET', name, value)
    const port = await listenForTls(admin)
    const address = `rediss://127.0.0.1:${port}?ca=${join(folder, 'ca.pem')}`
    assert.match(await look(address), /, TLS: master/)
    const { url, tls } = readStateAddress(address, (path) => readFileSync(path, 'utf8'))
    const clock = createSystemClock()
    const registrations = createMemoryRegistrations()
    const state = createRedisState({ url, tls, registrations, clock, deadlineMs: 5_000 })
    t.after(() => state.close())
    const begun = await state.ask(onceScript, { subject: 'k/tls', name: '' }, ['begin', 'a', 'hash', '1000'])
    assert.equal(begun, 'new')
    await refused(`rediss://127.0.0.1:${port}`, /certificate of .* is not accepted .*\?ca=<file>/)
    await refused(
      `rediss://localhost:${port}?ca=${join(folder, 'ca.pem')}`,
      /certificate of .* is not accepted/,
    )
    await refused(`rediss://${node}`, /rediss:\/\/ is for a port with TLS/)
    await refused(`redis://127.0.0.1:${port}`, /rediss:\/\/ is for a port with TLS/)
  })
})

/** Makes an authority, and a certificate of 127.0.0.1 by it. */
function certify(folder: string): void {
  const openssl = (...args: readonly string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'] as const
  openssl(
    'req',
    '-x509',
    ...key,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-subj',
    '/CN=Test authority',
    '-days',
    '2',
  )
  openssl('req', ...key, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=server')
  execFileSync(
    'sh',
    [
      '-c',
      "printf 'subjectAltName=IP:127.0.0.1' | openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile /dev/stdin -out server.pem",
    ],
    { cwd: folder, stdio: 'pipe' },
  )
}
