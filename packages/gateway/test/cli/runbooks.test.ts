/**
 * Every command of the runbooks and of the page about monitoring does something on a gateway in trouble: one account is blocked, one notification is a
 * dead letter, one waits. The metrics, log events and error codes that they name exist.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { errors } from '../../src/errors.ts'
import { logEvents } from '../../src/observability/log-events.ts'
import { runningGateway, sluice } from './session.ts'

const read = (path: string): string =>
  readFileSync(new URL(`../../../../docs/${path}`, import.meta.url), 'utf8')
const runbooks = read('operate/runbooks.md')
const pages = runbooks + read('operate/monitoring.md')
const quoted = [...new Set([...pages.matchAll(/`([^`]+)`/g)].map(([, text]) => text!))]
const commands = quoted.filter((text) => /^(?:sluice|curl) /.test(text))
const local = 'http://127.0.0.1:8080'

test('every runbook names a command to look with', () => {
  for (const section of runbooks.split(/^## /m).slice(1))
    assert.match(section, /`(?:sluice|curl) [^`]+`/, section.split('\n')[0])
})

test('every command of the operator’s pages runs, and has something to say about a gateway in trouble', async (t) => {
  const gateway = await runningGateway(
    t,
    `pools:
  sms: { provider: sandbox, accounts: [{ id: blocked, allows: 1/h, retryAfter: "120" }] }
  email: { provider: sandbox, retry: { attempts: 1 }, accounts: [{ id: broken, odds: { fail: 100% } }] }`,
  )
  const send = (channel: string, n: number) =>
    gateway.post('/notifications', {
      recipient: { id: `u${n}`, phone: '+391234567890', email: 'a@example.com' },
      channel,
      category: 'security',
      content: { subject: 's', text: `${n}` },
    })
  await send('sms', 0)
  await send('sms', 1)
  const { body } = await send('email', 2)
  const { counts } = gateway.gateway.ledger
  for (let tries = 0; counts().dead < 1 && tries < 1_200; tries += 1) await delay(25)
  assert.equal(counts().dead, 1)
  assert.ok(commands.length >= 10, `${commands.length} commands`)
  for (const command of commands) {
    const [program, ...args] = command.replace('<id>', String(body.notificationId)).split(' ')
    if (program === 'sluice') {
      const { code, out, err } = await sluice([...args, '--url', gateway.url])
      assert.equal(code, 0, `${command}: ${err}`)
      assert.ok(out.length > 0, command)
    } else {
      const url = args.at(-1)!
      assert.ok(url.startsWith(local), command)
      const { status } = await fetch(url.replace(local, gateway.url))
      assert.equal(status, 200, command)
    }
  }
  const say = async (...args: string[]): Promise<string> =>
    (await sluice([...args, '--url', gateway.url])).out
  assert.match(await say('pools', '--out'), /blocked/)
  assert.match(await say('dead-letters', 'redrive', '--cause', 'attempts_exhausted', '--dry-run'), /^1 would/)
  assert.match(await say('backlog', '--by', 'tenant', '--reason', 'provider_capacity'), /default/)
})

test('the metrics, log events and error codes that the operator’s pages name exist', () => {
  const metrics = read('reference/metrics.md')
  for (const text of quoted) {
    if (/^(?:sluice_|nodejs_)\w+$/.test(text)) assert.ok(metrics.includes(`\`${text}\``), text)
    if (/^[a-z_]+\.[a-z_]+$/.test(text) && !text.startsWith('retention.notifications'))
      assert.ok(text in logEvents, `${text} is no event`)
    if (/^(?!SLUICE_)[A-Z][A-Z_]{5,}$/.test(text)) assert.ok(text in errors, `${text} is no code`)
  }
})
