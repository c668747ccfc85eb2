/** `sluice export`: recorded traffic of a running gateway, without what nobody may see. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import type { TrafficHeader, TrafficLine } from '../../src/replay/traffic.ts'
import { temporaryFolder } from '../config/folder.ts'
import { sluice } from './session.ts'

const people = 20
const yaml = `
http: { port: 0 }
log: { level: silent }
tenants: { default: { rate: unlimited, modules: unlimited } }
`

const post = async (url: string, path: string, body: unknown, method = 'POST'): Promise<void> => {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  assert.ok(response.ok, await response.text())
}

const parse = (out: string): [TrafficHeader, ...TrafficLine[]] =>
  out.split('\n').map((line) => JSON.parse(line)) as [TrafficHeader, ...TrafficLine[]]

test('export writes what a policy decides by, beside a running gateway, and neither addresses nor content', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  const ada = { email: 'ada@example.com', timeZone: 'Europe/Rome', optOuts: [{ category: 'news' }] }
  await post(url, '/recipients/ada', ada, 'PUT')
  const content = { subject: 'A secret subject', text: 'A secret text' }
  await post(url, '/notifications', { recipient: 'ada', channel: 'email', content, actor: 'author-7' })
  await post(url, '/notifications', { recipient: 'ada', channel: 'email', category: 'news', content })
  const later = new Date(Date.now() + 3_600_000).toISOString()
  for (let each = 0; each < people; each += 1)
    await post(url, '/notifications', {
      recipient: { id: `person-${each}`, email: `${each}@example.com`, phone: `+4930${each}00000` },
      channel: each % 2 === 0 ? 'email' : 'sms',
      sendAt: later,
      content,
    })

  const { code, out, err } = await sluice(['export'], { cwd })
  assert.equal(code, 0, err)
  const [header, ...lines] = parse(out)
  assert.match(err, /^22 requests from /)
  assert.equal(header.traffic, 'sluice')
  assert.equal(header.pseudonyms, true)
  assert.equal(lines.length, people + 2)
  for (const secret of ['example.com', 'secret', 'ada', 'author-7', 'person-', '+4930'])
    assert.ok(
      !lines
        .map((line) => JSON.stringify(line))
        .join()
        .includes(`${secret}`),
      secret,
    )
  const [sent, optedOut] = lines
  assert.deepEqual(
    [sent?.timeZone, sent?.optOuts, sent?.outcome, sent?.channel, sent?.reachable],
    ['Europe/Rome', [{ category: 'news' }], 'send', 'email', ['email', 'websocket']],
  )
  assert.deepEqual([optedOut?.state, optedOut?.reason], ['suppressed', 'opted_out'])
  assert.equal(sent?.recipient, optedOut?.recipient)
  assert.equal(lines.find(({ channel }) => channel === 'sms')?.phoneCode, '+49')
  assert.ok(lines.every(({ id }, index) => id.endsWith(`n${String(index + 1).padStart(9, '0')}`)))

  const plain = parse((await sluice(['export', '--plain'], { cwd })).out)
  assert.equal(plain[1]?.recipient, 'ada')
  assert.equal(plain[1]?.actor, 'author-7')

  const again = parse((await sluice(['export'], { cwd })).out)
  assert.notEqual(again[1]?.recipient, sent?.recipient, 'two files cannot be joined')
})

test('export takes a sample of people, a tenant, a category and a period', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
  const gateway = await createGateway(loadConfig({ cwd, env: {} }))
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  for (let each = 0; each < people; each += 1)
    for (const category of ['product', 'billing'])
      await post(url, '/notifications', {
        recipient: { id: `person-${each}`, email: `${each}@example.com` },
        channel: 'email',
        category,
        content: { subject: 's', text: category },
      })
  const linesOf = async (...args: string[]): Promise<TrafficLine[]> =>
    parse((await sluice(['export', '--plain', ...args], { cwd })).out).slice(1) as TrafficLine[]

  const sampled = await linesOf('--sample', '50%')
  const seen = new Set(sampled.map(({ recipient }) => recipient))
  assert.ok(seen.size > 0 && seen.size < people, `${seen.size} people`)
  assert.equal(sampled.length, 2 * seen.size, 'all requests of each person')
  assert.equal((await linesOf('--category', 'billing')).length, people)
  assert.equal((await linesOf('--tenant', 'default')).length, 2 * people)
  assert.equal((await linesOf('--tenant', 'other')).length, 0)
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString()
  const after = await linesOf('--from', tomorrow, '--to', new Date(Date.now() + 2 * 86_400_000).toISOString())
  assert.equal(after.length, 2 * people, 'what left before a period is its warm-up')
  assert.ok(after.every(({ warmUp }) => warmUp === true))
  for (const wrong of [
    ['--sample', '0%'],
    ['--sample', 'some'],
    ['--from', 'yesterday'],
    ['--from', '2026-11-22', '--to', '2026-11-21'],
  ])
    assert.equal((await sluice(['export', ...wrong], { cwd })).code, 2, wrong.join(' '))
})
