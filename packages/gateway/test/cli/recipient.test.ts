import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runningGateway, sluice } from './session.ts'

test('recipient shows the stored data, limits and timeline of a recipient', async (t) => {
  const gateway = await runningGateway(t)
  assert.ok(
    (await gateway.put('/recipients/user-42', { email: 'ada@example.com', timeZone: 'Europe/Rome' })) < 300,
  )
  for (const subject of ['one', 'two', 'three']) {
    await gateway.post('/notifications', {
      recipient: 'user-42',
      channel: 'email',
      category: 'marketing',
      content: { subject, text: subject },
    })
  }
  const { code, out, err } = await sluice(['recipient', 'user-42', '--url', gateway.url])
  assert.equal(code, 0, err)
  assert.match(out, /^user-42\n/)
  assert.match(out, /^ {2}email +ada@example\.com$/m)
  assert.match(out, /^ {2}timeZone +Europe\/Rome$/m)
  assert.match(out, /^ {2}limit +window +used +left +booked +frees at$/m)
  assert.match(out, /^ {2}marketing-email +2\/day +[0-2]\/2 +\d +[0-2] +\d{4}-/m)
  assert.match(out, /suppressed +over_limit +email +marketing/)

  const json = await sluice(['recipient', 'user-42', '--json', '--limit', '2', '--url', gateway.url])
  const { recipient, limits, timeline } = JSON.parse(json.out)
  assert.deepEqual(
    [recipient.email, timeline.items.length, typeof timeline.nextCursor],
    ['ada@example.com', 2, 'string'],
  )
  assert.ok(limits.some((use: { limit: string }) => use.limit === 'marketing-email'))
})

test('the limits of an unknown recipient are unused', async (t) => {
  const gateway = await runningGateway(t)
  const { code, out } = await sluice(['recipient', 'nobody', '--url', gateway.url])
  assert.equal(code, 0)
  assert.match(out, /no addresses or preferences are stored/)
  assert.match(out, /marketing-email +2\/day +0\/2 +2/)
  assert.match(out, /Nothing was ever sent\./)
})

test('a --limit that is no number is bad usage', async () => {
  assert.equal((await sluice(['recipient', 'x', '--limit', '0'])).code, 2)
  assert.equal((await sluice(['recipient', 'x', '--limit', '501'])).code, 2)
})
