/** SIGHUP reads secrets, keys, templates and the policy again: all of them take effect, or none and the log says why. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parse, stringify } from 'yaml'
import { createSite, type Site } from '../child.ts'
import { audience, createSigner, issuer, tokenFor } from '../tokens.ts'

interface Received {
  readonly authorization: string | undefined
  readonly text: string
}

/** A webhook that keeps what arrives, and answers when it is told to. */
async function startEndpoint(t: TestContext) {
  const received: Received[] = []
  let hold: Promise<void> | undefined
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      body += part
    })
    request.on('end', async () => {
      const { content } = JSON.parse(body) as { content: { text: string } }
      received.push({ authorization: request.headers.authorization, text: content.text })
      await hold
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    received,
    port,
    hold(until: Promise<void> | undefined) {
      hold = until
    },
  }
}

const old = createSigner('HS256', 'old')
const fresh = createSigner('HS256', 'fresh')

async function setUp(t: TestContext) {
  const endpoint = await startEndpoint(t)
  const account = (password: string) => ({
    id: 'hook',
    url: `http://u:${password}@127.0.0.1:${endpoint.port}/in`,
  })
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: {
      auth: { jwt: { secretFile: './jwt.secret', issuer, audience } },
      templates: './templates',
      pools: { webhook: { provider: 'webhook', accounts: [account('first')] } },
      log: { level: 'info' },
    },
  })
  const write = (path: string, text: string) => writeFileSync(join(site.folder, path), text)
  mkdirSync(join(site.folder, 'templates/hello'), { recursive: true })
  write('jwt.secret', old.publicKey)
  write('templates/hello/text.liquid', 'old {{ data.name }}')
  await site.start()

  async function reload(): Promise<{ readonly event: string; readonly reason?: string }> {
    const before = lines(site).length
    process.kill(site.pid!, 'SIGHUP')
    for (const until = performance.now() + 60_000; performance.now() < until; await sleep(20)) {
      const found = lines(site)[before]
      if (found !== undefined) return found
    }
    assert.fail(`no answer to SIGHUP in\n${site.log()}`)
  }
  const post = (signer = old) =>
    site.call(
      'POST',
      '/api/v1/notifications',
      {
        recipient: { id: 'ada' },
        channel: 'webhook',
        category: 'security',
        template: 'hello',
        data: { name: String(performance.now()) },
      },
      { authorization: `Bearer ${tokenFor(signer)}` },
    )
  async function arrives(count: number): Promise<Received> {
    for (const until = performance.now() + 30_000; performance.now() < until; await sleep(10))
      if (endpoint.received.length >= count) return endpoint.received[count - 1]!
    assert.fail(`${endpoint.received.length} of ${count} arrived\n${site.log()}`)
  }
  /** Changes sluice.yaml. */
  function edit(change: (document: Record<string, unknown>) => void): void {
    const document = parse(readFileSync(join(site.folder, 'sluice.yaml'), 'utf8')) as Record<string, unknown>
    change(document)
    write('sluice.yaml', stringify(document))
  }
  return { site, endpoint, write, reload, post, arrives, edit, account }
}

const lines = (site: Site) =>
  site
    .log()
    .split('\n')
    .filter((line) => line.includes('"config.re'))
    .map((line) => JSON.parse(line) as { event: string; reason?: string })

const login = (password: string) => `Basic ${Buffer.from(`u:${password}`).toString('base64')}`

test('SIGHUP puts new keys, account secrets and templates in force, and calls under way end with the old ones', async (t) => {
  const { endpoint, write, reload, post, arrives, edit, account } = await setUp(t)
  const release = Promise.withResolvers<void>()
  endpoint.hold(release.promise)
  assert.equal((await post()).status, 202)
  const first = await arrives(1)
  assert.match(first.text, /^old /)
  assert.equal(first.authorization, login('first'))
  write('jwt.secret', fresh.publicKey)
  write('templates/hello/text.liquid', 'new {{ data.name }}')
  edit((document) => {
    document.pools = { webhook: { provider: 'webhook', accounts: [account('second')] } }
  })
  assert.equal((await reload()).event, 'config.reloaded')
  endpoint.hold(undefined)
  release.resolve()
  assert.equal((await post()).status, 401, 'a token of the old key')
  assert.equal((await post(fresh)).status, 202)
  const second = await arrives(2)
  assert.match(second.text, /^new /)
  assert.equal(second.authorization, login('second'))
  await sleep(200)
  assert.equal(endpoint.received.length, 2, 'nothing was sent twice')
})

test('a mistake in one part leaves every part as it was, and the log says where it is', async (t) => {
  const { write, reload, post, arrives } = await setUp(t)
  write('jwt.secret', fresh.publicKey)
  write('templates/hello/text.liquid', 'new {{ data.name')
  const refused = await reload()
  assert.equal(refused.event, 'config.refused')
  assert.match(refused.reason!, /hello.*text\.liquid/)
  assert.equal((await post(fresh)).status, 401)
  assert.equal((await post()).status, 202)
  assert.match((await arrives(1)).text, /^old /)
})

test('a change that takes a restart is refused as a whole, with the policy and the keys beside it', async (t) => {
  const { site, write, reload, post, edit } = await setUp(t)
  const before = await policyOf(site)
  edit((document) => {
    document.http = { ...(document.http as object), drainMs: '9s' }
  })
  write('jwt.secret', fresh.publicKey)
  write('policy.yaml', stringify(oncePerDay))
  assert.match((await reload()).reason!, /^http\.drainMs: changed, which takes a restart/)
  assert.equal((await post()).status, 202)
  assert.equal((await policyOf(site)).version, before.version)
  edit((document) => {
    const { drainMs: _, ...http } = document.http as Record<string, unknown>
    document.http = http
  })
  assert.equal((await reload()).event, 'config.reloaded')
  assert.equal((await post()).status, 401)
  assert.equal((await post(fresh)).status, 202)
})

const oncePerDay = { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/day'], over: 'drop' }] }
const admin = (signer = old) => ({
  authorization: `Bearer ${tokenFor(signer, { scope: 'sluice:admin' })}`,
})

async function policyOf(site: Site, signer = old) {
  const answer = await site.call('GET', '/api/v1/policy', undefined, admin(signer))
  return answer.json<{ version: string; policy: { limits: readonly { name: string }[] } }>()
}

test('SIGHUP puts a changed policy in force, and every answer names its version', async (t) => {
  const { site, write, reload, post } = await setUp(t)
  const before = await policyOf(site)
  assert.equal((await post()).status, 202)
  write('policy.yaml', stringify({ ...oncePerDay, limits: [{ ...oncePerDay.limits[0], for: 'nobody' }] }))
  const refused = await reload()
  assert.equal(refused.event, 'config.refused')
  assert.match(refused.reason!, /limits\[0\]\.for/)
  assert.deepEqual(await policyOf(site), before)
  write('policy.yaml', stringify(oncePerDay))
  const reloaded = await reload()
  assert.equal(reloaded.event, 'config.reloaded')
  const after = await policyOf(site)
  assert.notEqual(after.version, before.version)
  assert.deepEqual(
    after.policy.limits.map(({ name }) => name),
    ['one'],
  )
  assert.equal((reloaded as { policy?: string }).policy, after.version)
  // The first one of before counts: the limit of the new policy drops the second.
  const second = (await post()).json<{ status: string; decision: { policyVersion: string } }>()
  assert.equal(second.status, 'suppressed')
  assert.equal(second.decision.policyVersion, after.version)
  const whoami = await site.call('GET', '/api/v1/whoami', undefined, admin())
  assert.equal(whoami.json<{ policyVersion: string }>().policyVersion, after.version)
  const metrics = (await site.call('GET', '/metrics', undefined, admin())).text
  assert.match(metrics, new RegExp(`sluice_build_info\\{[^}]*policy="${after.version}"[^}]*\\} 1`))
  assert.doesNotMatch(metrics, new RegExp(before.version))
  assert.match(metrics, /sluice_limit_refusals_total\{limit="one",over="drop"\} 1/)
})

test('signals during a reload are one more reload after it, and the last policy is in force', async (t) => {
  const { site, write } = await setUp(t)
  const limitOf = (count: number) => ({
    ...oncePerDay,
    limits: [{ ...oncePerDay.limits[0]!, max: [`${count}/day`] }],
  })
  for (let count = 2; count <= 6; count += 1) {
    write('policy.yaml', stringify(limitOf(count)))
    for (let signal = 0; signal < 3; signal += 1) process.kill(site.pid!, 'SIGHUP')
    await sleep(count)
  }
  for (const until = performance.now() + 60_000; performance.now() < until; await sleep(20))
    if (JSON.stringify(await policyOf(site)).includes('6/day')) return
  assert.fail(`the last policy is not in force\n${site.log()}`)
})

test('a kill in the middle of a reload loses nothing, and the next start takes the policy on disk', async (t) => {
  const { site, write, post, endpoint } = await setUp(t)
  const ids: string[] = []
  for (const [round, afterMs] of [0, 5].entries()) {
    write(
      'policy.yaml',
      stringify(
        round % 2 === 0
          ? { ...oncePerDay, limits: [] }
          : { version: 1, limits: [], deduplication: { window: '1s' } },
      ),
    )
    process.kill(site.pid!, 'SIGHUP')
    const posts = Promise.allSettled([post(), post(), post()])
    await sleep(afterMs)
    await site.kill()
    for (const end of await posts)
      if (end.status === 'fulfilled' && end.value.status === 202)
        ids.push(end.value.json<{ notificationId: string }>().notificationId)
    await site.start()
  }
  for (const until = performance.now() + 60_000; performance.now() < until; await sleep(50)) {
    const states = await Promise.all(
      ids.map(
        async (id) =>
          (await site.call('GET', `/api/v1/notifications/${id}`, undefined, admin())).json<{
            status: string
          }>().status,
      ),
    )
    if (states.every((status) => status === 'delivered')) return
  }
  assert.fail(`not all of ${ids.length} were delivered, ${endpoint.received.length} arrived`)
})

test('a file that is no YAML ends nothing', async (t) => {
  const { write, reload, post } = await setUp(t)
  write('sluice.yaml', 'http: [')
  assert.equal((await reload()).event, 'config.refused')
  assert.equal((await post()).status, 202)
})
