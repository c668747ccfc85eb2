/**
 * A canary in every secret: a gateway that logs all it can, providers that refuse and repeat what they were sent, every
 * published route and every command. Nowhere does a canary come out, in no encoding that software is wont to use.
 */
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { stringify } from 'yaml'
import { configSchema } from '../../src/config/schema.ts'
import { commands } from '../../src/main.ts'
import { channels } from '../../src/model.ts'
import { start } from '../cli/process.ts'
import { sluice } from '../cli/session.ts'
import { temporaryFolder } from '../config/folder.ts'
import { createHttpSink } from '../sinks/http.ts'
import { createSmtpSink } from '../sinks/smtp.ts'
import { audience, badTokens, createSigner, issuer, tokenFor } from '../tokens.ts'
import type { OpenApi } from './keyed.ts'

/** A word and what it looks like in base64 (at each of its three places), hexadecimal, and a URL. */
function formsOf(word: string): readonly string[] {
  const forms = [word, encodeURIComponent(word), Buffer.from(word).toString('hex')]
  for (let shift = 0; shift < 3; shift += 1) {
    const bytes = Buffer.from(' '.repeat(shift) + word)
    const text = bytes.toString('base64')
    // Text beside the word changes the letters at both ends.
    const inner = text.slice(shift === 0 ? 0 : 4, text.length - (text.length % 4) - 4)
    forms.push(inner, inner.replaceAll('+', '-').replaceAll('/', '_'))
  }
  return [...new Set(forms)]
}

function assertSilent(where: string, text: string, canaries: Readonly<Record<string, string>>): void {
  for (const [name, canary] of Object.entries(canaries))
    for (const form of formsOf(canary))
      assert.ok(
        !text.includes(form),
        `${where} tells the ${name}: …${text.slice(Math.max(0, text.indexOf(form) - 80), text.indexOf(form) + form.length + 20)}…`,
      )
}

test('the forms of a canary are found where they are', () => {
  const word = 'canary-of-the-test'
  for (const before of ['', 'a', 'ab', 'abc']) {
    const text = Buffer.from(`${before}${word} and more`).toString('base64')
    assert.ok(
      formsOf(word).some((form) => text.includes(form)),
      before,
    )
  }
})

test('no secret comes out of a gateway that runs, fails and logs', { timeout: 240_000 }, async (t) => {
  const dkim = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey
  const pem = String(dkim.export({ type: 'pkcs8', format: 'pem' }))
  const canaries = {
    'secret for tokens': 'canary-tokens-canary-tokens-canary-tokens',
    'secret of unsubscribing': 'canary-unsubscribe-canary',
    'password of a mail server': 'canary-password',
    'key of a webhook': 'canary-key-of-the-webhook',
    'path of a webhook': 'canary-path',
    'query of a webhook': 'canary-query',
    'key of DKIM': pem.split('\n')[3]!,
  }
  const smtp = await createSmtpSink({ rules: [{ at: 'auth', do: '535 5.7.8 not with canary-password' }] })
  t.after(() => smtp.close())
  const http = await createHttpSink({
    rules: [
      { match: 'sms', status: 404, body: 'Cannot POST /canary-path/sms?k=canary-query' },
      { match: 'slack', status: 500, body: 'no canary-query here: /canary-path/slack?k=canary-query' },
      { match: 'push', do: 'reset' },
    ],
  })
  t.after(() => http.close())
  const hook = (name: string): object => ({
    provider: 'webhook',
    retry: { attempts: 1 },
    accounts: [
      {
        id: name,
        url: `${http.url}/canary-path/${name}?k=canary-query`,
        secret: `whsec_${Buffer.from(canaries['key of a webhook']).toString('base64')}`,
      },
    ],
  })
  const cwd = temporaryFolder(t, {
    'sluice.yaml': stringify({
      http: { port: 0, publicUrl: 'https://notify.example.com' },
      store: 'sqlite:./sluice.db',
      log: { level: 'trace' },
      auth: { jwt: { secret: canaries['secret for tokens'], issuer, audience } },
      unsubscribe: { secret: canaries['secret of unsubscribing'] },
      pools: {
        email: {
          provider: 'smtp',
          retry: { attempts: 1 },
          accounts: [
            {
              id: 'mail',
              url: `smtp://user:canary-password@127.0.0.1:${smtp.port}`,
              dkim: { domainName: 'example.com', keySelector: 's', privateKey: pem },
            },
          ],
        },
        sms: hook('sms'),
        slack: hook('slack'),
        push: hook('push'),
        webhook: hook('webhook'),
      },
    }),
  })
  const signer = { ...createSigner('HS256'), key: canaries['secret for tokens'] }
  const token = tokenFor(signer, { scope: 'sluice:admin' })
  const running = start(t, ['serve'], { cwd })
  const url = /http:\/\/\S+/.exec(await running.firstLine)![0]
  const seen: Record<string, string> = {}

  const stream = get(`${url}/api/v1/events`, { headers: { authorization: `Bearer ${token}` } })
  stream.on('response', (response) => {
    response.on('error', () => {})
    response.setEncoding('utf8').on('data', (text: string) => {
      seen['the events'] = (seen['the events'] ?? '') + text
    })
  })
  stream.on('error', () => {})
  const ask = async (
    method: string,
    path: string,
    body?: unknown,
    authorization = `Bearer ${token}`,
  ): Promise<string> => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const headers = JSON.stringify([...response.headers])
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) {
      await response.body?.cancel()
      return headers
    }
    const text = await response.text()
    seen[`${method} ${path}`] = (seen[`${method} ${path}`] ?? '') + headers + text
    return text
  }

  const recipient = {
    id: 'ada',
    email: 'ada@example.com',
    phone: '+390612345678',
    pushToken: 'p',
    slackChannel: '#c',
    webhookUrl: 'https://example.com/',
  }
  const ids: string[] = []
  for (const channel of ['email', 'sms', 'slack', 'push', 'webhook']) {
    const content = { subject: 'a', title: 'a', text: 'b' }
    const text = await ask('POST', '/api/v1/notifications', {
      recipient: recipient,
      channel,
      category: 'security',
      content,
    })
    ids.push((JSON.parse(text) as { notificationId: string }).notificationId)
  }
  const ended = async (id: string): Promise<boolean> =>
    /"status":"(delivered|failed|dead)","sendAt|"status":"(delivered|failed|dead)"/.test(
      await ask('GET', `/api/v1/notifications/${id}`),
    )
  for (const id of ids) for (let tries = 0; !(await ended(id)) && tries < 1_200; tries += 1) await after(25)

  const document = JSON.parse(await ask('GET', '/openapi.json')) as OpenApi
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of Object.keys(operations)) {
      // An erased recipient leaves no data to search for a secret.
      const somebody = method === 'delete' ? 'bob' : 'ada'
      const place = path.replace(/\{[a-z]+\}/, path.includes('recipients') ? somebody : ids[1]!)
      await ask(method.toUpperCase(), place)
      if (method !== 'get') await ask(method.toUpperCase(), place, { nonsense: true })
    }
  }
  const refusedTokens = badTokens(signer).flatMap(({ authorization }) => authorization ?? [])
  for (const authorization of refusedTokens) await ask('GET', '/api/v1/pools', undefined, authorization)

  const env = { SLUICE_TOKEN: token, SLUICE_URL: url }
  const arguments_: Readonly<Record<string, readonly string[]>> = {
    explain: [ids[0]!],
    recipient: ['ada'],
    schema: ['config'],
    simulate: ['hierarchy'],
    top: ['--once'],
    cancel: [ids[0]!],
    job: ['unknown'],
    send: ['--to', 'ada', '--text', 'b'],
    decide: ['--to', 'ada', '--text', 'b'],
    hash: ['ada'],
  }
  for (const name of Object.keys(commands)) {
    // `tail` never ends by itself, and shows what the stream of events above has.
    if (['serve', 'sandbox', 'token', 'tail'].includes(name)) continue
    for (const json of [[], ['--json']]) {
      const { out, err } = await sluice(
        [name, ...(arguments_[name] ?? []), ...(name === 'schema' ? [] : json)],
        { cwd, env },
      )
      seen[`sluice ${name} ${json.join(' ')}`] = out + err
    }
  }
  assert.match(seen['sluice dead-letters '] ?? '', /attempts_exhausted/, 'some went wrong')
  assert.match(seen['the events'] ?? '', /"status":"failed"/)

  running.child.kill('SIGTERM')
  assert.equal((await running.exit).code, 0)
  seen['standard output'] = running.output.out
  seen['the log'] = running.output.err
  const tokens = Object.fromEntries(
    [token, ...refusedTokens.map((each) => each.split(' ')[1] ?? '')]
      .filter((each) => each.length > 40)
      .map((each, index) => [`token ${index}`, each.split('.').at(-1)!.slice(0, 40)] as const)
      .filter(([, signature]) => signature.length > 20),
  )
  for (const [where, text] of Object.entries(seen)) assertSilent(where, text, { ...canaries, ...tokens })
  // A stolen backup reveals the stored data.
  const stored = readFileSync(join(cwd, 'sluice.db')).toString('latin1')
  assertSilent('the database', stored, canaries)
  t.diagnostic(`${Object.keys(seen).length} places, ${Object.values(seen).join('').length} characters`)
})

interface Schema {
  readonly secret?: boolean
  readonly properties?: Readonly<Record<string, Schema>>
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly const?: unknown
}

/** A document for every field that the schema calls secret, with the canary in it. */
function* documentsOf(schema: Schema, canary: string): Generator<unknown> {
  if (schema.secret === true) {
    yield canary
    yield [canary]
    return
  }
  for (const member of schema.anyOf ?? []) yield* documentsOf(member, canary)
  if (schema.items !== undefined) for (const inner of documentsOf(schema.items, canary)) yield [inner]
  const fields = Object.entries(schema.properties ?? {})
  const named = Object.fromEntries(
    fields.flatMap(([name, { const: value }]) => (value === undefined ? [] : [[name, value]])),
  )
  const about = 'id' in (schema.properties ?? {}) ? { ...named, id: 'a' } : named
  for (const [name, field] of fields)
    for (const inner of documentsOf(field, canary)) yield { ...about, [name]: inner }
}

test('a configuration that is refused, or shown, does not tell what was put in the place of a secret', async (t) => {
  const { properties } = configSchema as unknown as Schema
  const pool = (properties!.pools as Schema).properties!
  const others = channels.filter((channel) => !['email', 'sms', 'push'].includes(channel))
  const few = Object.fromEntries(
    Object.entries(pool).filter(([channel]) => !others.includes(channel as never)),
  )
  const schema: Schema = { properties: { ...properties, pools: { properties: few } } }
  let count = 0
  // The default policy takes most of the time of a check.
  const cwd = temporaryFolder(t, { 'policy.yaml': stringify({ version: 1 }) })
  for (const canary of [
    'canary-of-a-secret',
    'https://canary-of-a-secret:canary-of-a-secret@h.example/canary-of-a-secret?k=canary-of-a-secret',
    'whsec_Y2FuYXJ5LW9mLWEtc2VjcmV0',
    `-----BEGIN canary-of-a-secret`,
  ]) {
    for (const document of documentsOf(schema, canary)) {
      count += 1
      const policy = './policy.yaml'
      writeFileSync(join(cwd, 'sluice.yaml'), stringify({ policy, ...(document as object) }))
      for (const json of [[], ['--json']]) {
        const { out, err } = await sluice(['check', ...json], { cwd })
        assertSilent(`sluice check of ${JSON.stringify(document)}`, out + err, {
          canary: 'canary-of-a-secret',
        })
      }
    }
  }
  assert.ok(count > 30, `${count} documents`)
  t.diagnostic(`${count} documents`)
})
