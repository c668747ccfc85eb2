/** `sluice hold` at a running gateway: an account, notifications, the list, the end, and what it refuses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runningGateway, sluice } from './session.ts'

const pools =
  'pools: { sms: { provider: sandbox, accounts: [{ id: first, rate: 10/s }, { id: second, rate: 5/s }] }, email: { provider: sandbox } }'

test('hold takes an account out, says what is left, lists it and ends it', async (t) => {
  const gateway = await runningGateway(t, pools)
  const at = ['--url', gateway.url]
  const held = await sluice(['hold', 'sms/first', '--until', '2h', '--reason', 'a new key', ...at])
  assert.equal(held.code, 0, held.err)
  assert.match(
    held.out,
    /^first of sms is out until .* \(in 2 h\)\. 1 of 2 accounts are left, and carry 5\/s\.$/,
  )
  const listed = await sluice(['hold', ...at])
  assert.match(listed.out, /^sms\/first +account first +.* +a new key$/m)
  assert.match((await sluice(['pools', '--out', ...at])).out, /out by an operator until/)
  const top = (await sluice(['top', '--once', ...at])).out
  assert.match(top, /^held {8}account sms\/first until .*: a new key$/m)
  assert.match(top, /^accounts .* 1 held/m)
  assert.equal((await sluice(['hold', 'sms/first', '--end', ...at])).out, 'sms/first is held no more.')
  assert.equal((await sluice(['hold', ...at])).out, 'Nothing is held.')
})

test('hold stops notifications of a category until it is ended, and explain names it', async (t) => {
  const gateway = await runningGateway(t, pools)
  const at = ['--url', gateway.url]
  const args = ['--category', 'marketing', '--until', '09:00', '--reason', 'incident', '--json']
  const held = await sluice(['hold', 'quiet', ...args, ...at])
  assert.equal(held.code, 0, held.err)
  const hold = JSON.parse(held.out) as { until: string; category: string }
  assert.equal(hold.category, 'marketing')
  const until = new Date(hold.until)
  assert.deepEqual([until.getHours(), until.getMinutes(), until > new Date()], [9, 0, true])
  const send = [
    'send',
    '--to',
    'ada',
    '--email',
    'ada@example.com',
    '--subject',
    'a',
    '--text',
    'b',
    '--json',
  ]
  const sent = await sluice([...send, '--category', 'marketing', ...at])
  assert.equal(sent.code, 0, sent.err)
  const { notificationId, decision } = JSON.parse(sent.out)
  assert.equal(decision.reason, 'held')
  const explained = await sluice(['explain', notificationId, ...at])
  assert.match(explained.out.split('\n')[0]!, /quiet/)
  assert.equal((await sluice(['hold', 'quiet', '--end', ...at])).code, 0)
  assert.equal((await sluice(['explain', notificationId, '--wait', ...at])).code, 0)
})

test('hold refuses what makes no sense with the way out', async (t) => {
  const gateway = await runningGateway(t, pools)
  const refused = async (...args: string[]): Promise<string> => {
    const { code, err } = await sluice(['hold', ...args, '--url', gateway.url])
    assert.notEqual(code, 0)
    return err
  }
  assert.match(await refused('sms/first', '--reason', 'a'), /--until is missing: a hold ends by itself/)
  assert.match(await refused('sms/first', '--until', '2h'), /--reason is missing/)
  assert.match(
    await refused('sms/first', '--until', 'soon', '--reason', 'a'),
    /a span such as 2h, a time of day/,
  )
  assert.match(
    await refused('sms/first', '--until', '2020-01-01T00:00:00Z', '--reason', 'a'),
    /in the future/,
  )
  assert.match(
    await refused('sms/first', '--channel', 'sms', '--until', '2h', '--reason', 'a'),
    /names an account/,
  )
  // Accounts and holds are the gateway's: no tenant is to blame.
  assert.match(
    await refused('sms/nobody', '--until', '2h', '--reason', 'a'),
    /NOT_FOUND: There is no account with this id for this channel: GET \/pools \(sluice pools\) lists them\.$/,
  )
  assert.match(await refused('quiet', '--end'), /NOT_FOUND: No hold of this name is in force\.$/)
})
