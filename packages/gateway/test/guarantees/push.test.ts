/**
 * The push providers as an operator configures them: a gateway for each in a process of its own, that logs all it can,
 * towards the sandbox over real sockets. Messages arrive; refusals are told; no key, token or signature comes out.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { stringify } from 'yaml'
import { apnsExample, fcmExample, webPushExample } from '../../src/sandbox/example-keys.ts'
import { createSandboxServer } from '../../src/sandbox/server.ts'
import { start } from '../cli/process.ts'
import { temporaryFolder } from '../config/folder.ts'

/** RFC 8291's application server. */
const vapidKey = 'yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw'

interface Candidate {
  /** In sluice.yaml; the secret is in a file. */
  readonly account: (url: string) => object
  readonly secret: (url: string) => string
  readonly pushToken: (url: string) => string
}

const cases: Readonly<Record<string, Candidate>> = {
  apns: {
    account: (url) => ({
      url,
      keyId: apnsExample.keyId,
      teamId: apnsExample.teamId,
      topic: 'com.example.shop',
    }),
    secret: () => apnsExample.privateKey,
    pushToken: () => '0f'.repeat(32),
  },
  fcm: {
    account: (url) => ({ url }),
    secret: (url) => JSON.stringify(fcmExample.serviceAccount(url)),
    pushToken: () => 'registration-token',
  },
  webpush: {
    account: () => ({ subject: 'mailto:ops@example.com', services: ['127.0.0.1'] }),
    secret: () => vapidKey,
    pushToken: (url) => JSON.stringify(webPushExample.subscription(url)),
  },
}

for (const [provider, { account, secret, pushToken }] of Object.entries(cases))
  test(`${provider}, configured by files, carries messages and tells no secret`, {
    timeout: 60_000,
  }, async (t) => {
    const sandbox = await createSandboxServer()
    t.after(() => sandbox.close())
    const cwd = temporaryFolder(t, {
      'the.key': secret(sandbox.url),
      'sluice.yaml': stringify({
        http: { port: 0 },
        store: 'sqlite:./sluice.db',
        log: { level: 'trace' },
        network: { allowPrivate: true },
        pools: {
          push: {
            provider,
            retry: { attempts: 1 },
            accounts: [{ id: 'main', secretFile: './the.key', ...account(sandbox.url) }],
          },
        },
      }),
    })
    const running = start(t, ['serve'], { cwd })
    const url = /http:\/\/\S+/.exec(await running.firstLine)![0]
    let told = ''
    async function ask(path: string, body?: object): Promise<string> {
      const response = await fetch(`${url}/api/v1${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: body === undefined ? {} : { 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      told += text
      return text
    }
    async function send(id: string): Promise<string> {
      const recipient = { id, pushToken: pushToken(sandbox.url) }
      const content = { title: 'Hello', text: 'World' }
      const said = await ask('/notifications', { recipient, channel: 'push', category: 'security', content })
      const { notificationId } = JSON.parse(said) as { notificationId: string }
      for (let tries = 0; tries < 1_200; tries += 1) {
        const { status } = JSON.parse(await ask(`/notifications/${notificationId}`)) as { status: string }
        if (!['accepted', 'queued', 'sending'].includes(status)) return status
        await after(25)
      }
      return 'not in time'
    }

    assert.equal(await send('ada'), 'delivered')
    assert.equal(sandbox.received().length, 1)
    sandbox.behave({ odds: { reject_address: 1 } })
    for (const name of sandbox.accounts()) sandbox.behave({ odds: { reject_address: 1 } }, name)
    assert.match(await send('bob'), /^(failed|suppressed)$/)
    for (const name of sandbox.accounts()) sandbox.behave({ odds: { suspend: 1 } }, name)
    assert.equal(await send('eve'), 'dead')
    await ask('/pools')
    await ask('/dead-letters')
    running.child.kill('SIGTERM')
    assert.equal((await running.exit).code, 0)

    const canaries = sandbox.requests().flatMap(({ headers, body }) => [
      // The signature of a JWT, or what makes an access token one.
      /\.([\w-]{40,})(?:,|$)/.exec(String(headers.authorization))?.[1]?.slice(-40) ?? '',
      new URLSearchParams(body).get('assertion')?.slice(-40) ?? '',
    ])
    canaries.push(
      ...secret(sandbox.url)
        .split(/\\n|\n/)
        .filter((line) => /^[\w+/=-]{40,}$/.test(line)),
    )
    const used = [...new Set(canaries)].filter((canary) => canary.length >= 40)
    assert.ok(used.length >= 2, 'a key, and what was made with it')
    const places = {
      answers: told,
      output: running.output.out,
      log: running.output.err,
      database: readFileSync(join(cwd, 'sluice.db')).toString('latin1'),
    }
    for (const [place, text] of Object.entries(places))
      for (const canary of used) assert.ok(!text.includes(canary), `${place} tells ${canary}`)
    t.diagnostic(`${used.length} canaries`)
  })
