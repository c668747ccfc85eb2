import assert from 'node:assert/strict'
import { test } from 'node:test'
import { backlogSentence } from '../../src/cli/backlog.ts'
import { runningGateway, sluice } from './session.ts'

test('backlog says in a sentence what waits and when it is gone, and top shows it with the problems', async (t) => {
  const gateway = await runningGateway(t)
  assert.equal((await sluice(['backlog', '--url', gateway.url])).out, 'Nothing waits.')
  const last = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 7_200_000)
  for (const [index, sendAt] of [new Date(last.getTime() - 3_000), last].entries()) {
    await gateway.post('/notifications', {
      recipient: { id: `u${index}`, email: 'a@example.com' },
      channel: 'email',
      category: 'billing',
      content: { subject: 's', text: 't' },
      sendAt: sendAt.toISOString(),
    })
  }
  const { code, out } = await sluice(['backlog', '--url', gateway.url])
  assert.equal(code, 0)
  const at = last.toISOString().replace('T', ' ').replace('.000Z', 'Z')
  assert.ok(out.startsWith(`2 notifications wait for send_at; all are gone at ${at} (in 2 h).\n\n`), out)
  assert.match(out, /^send_at +2 +– .* booked +0 +0 +0 +2 +0$/m)
  const json = JSON.parse((await sluice(['backlog', '--url', gateway.url, '--by', 'category', '--json'])).out)
  assert.deepEqual([json.groups[0].key, json.groups[0].count], ['billing', 2])
  assert.match(
    (await sluice(['backlog', '--by', 'reson'])).err,
    /--by expects one of .*: did you mean "reason"\?/,
  )
  const top = await sluice(['top', '--url', gateway.url])
  assert.match(top.out, /^No problem is known\.$/m)
  assert.match(top.out, /^ {2}2 notifications wait for send_at/m)
  assert.match(top.out, /^accounts {4}\d+ healthy$/m)
})

test('the sentence of the backlog tells how many stay because nothing carries them', () => {
  const leaving = { '1m': 0, '10m': 0, '1h': 0, '1d': 0, later: 0 }
  const group = (key: string, count: number, emptyIs: 'never' | 'booked') => {
    const emptyAt = emptyIs === 'never' ? null : '2026-11-30T15:00:00.000Z'
    return { key, count, oldestDueAt: null, nextAt: null, lastAt: null, emptyAt, emptyIs, leaving }
  }
  const held = (count: number) => group('state_unavailable', count, 'never')
  const now = Date.UTC(2026, 10, 30, 14)
  const waits = 'for state_unavailable;'
  assert.equal(
    backlogSentence([held(1)], now),
    `1 notification waits ${waits} it stays, since nothing carries it now.`,
  )
  assert.equal(
    backlogSentence([held(3)], now),
    `3 notifications wait ${waits} all of them stay, since nothing carries them now.`,
  )
  assert.equal(
    backlogSentence([held(3), group('send_at', 1, 'booked')], now),
    `4 notifications wait, most of them ${waits} 3 of them stay, since nothing carries them now.`,
  )
})
