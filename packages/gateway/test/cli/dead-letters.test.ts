import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { runningGateway, sluice } from './session.ts'

test('dead letters are listed, counted, and redriven', async (t) => {
  let answer = 500
  const server = createServer((request, response) => {
    request.resume()
    response.statusCode = answer
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const gateway = await runningGateway(
    t,
    `pools: { sms: { provider: webhook, retry: { attempts: 1 }, accounts: [{ id: a, url: "http://127.0.0.1:${(server.address() as AddressInfo).port}/", rate: unlimited }] } }`,
  )
  const run = (...args: string[]) => sluice(['dead-letters', ...args, '--url', gateway.url])
  const eventually = async (args: readonly string[], found: RegExp): Promise<string> => {
    for (let tries = 0; ; tries += 1) {
      const { out } = await run(...args)
      if (found.test(out) || tries === 200) return out
      await after(25)
    }
  }

  assert.equal((await run()).out, 'No dead letters.')
  const { body } = await gateway.post('/notifications', {
    recipient: { id: 'u', phone: '+391234567890' },
    channel: 'sms',
    category: 'security',
    content: { text: 'code 1' },
  })
  const id = String(body.notificationId)
  assert.match(
    await eventually([], /attempts_exhausted/),
    new RegExp(`attempts_exhausted +default +sms +u +security .* ${id}\n\n1$`),
  )
  const explained = (await sluice(['explain', id, '--url', gateway.url])).out
  assert.match(
    explained,
    new RegExp(
      `^Is a dead letter since \\S+ \\S+ \\(attempts_exhausted\\): attempt 1 through webhook/a failed and was the last \\(.*\\)\\. It stays until an operator redrives it\\.\nTo send it now: sluice dead-letters redrive ${id}\n`,
    ),
  )
  assert.equal((await run('list', '--channel', 'email')).out, 'No dead letters.')
  assert.equal(
    (
      await run('list', '--cause', 'attempts_exhausted', '--channel', 'sms', '--tenant', 'default', '--json')
    ).out.includes(id),
    true,
  )
  assert.equal((await run('redrive', '--dry-run')).out, '1 would go on their way again.')
  assert.equal(
    (await run('redrive', 'other,ids', '--dry-run')).out,
    '0 would go on their way again.\nother stays: it is no dead letter\nids stays: it is no dead letter',
  )

  const unasked = await run('redrive')
  assert.equal(unasked.code, 2, 'a program that names nothing would take everything')
  assert.match(unasked.err, /add --all, ids, or a filter/)
  const questions: string[] = []
  const declined = await sluice(['dead-letters', 'redrive', '--url', gateway.url], {
    ask: async (question) => {
      questions.push(question)
      return 'n'
    },
  })
  assert.deepEqual([declined.code, questions], [1, ['Send all 1 dead letters on their way again? [y/N] ']])
  assert.match((await run()).out, /attempts_exhausted/, 'nothing was redriven')

  answer = 200
  assert.equal((await run('redrive', id)).out, '1 is on their way again.')
  assert.equal(await eventually([], /No dead letters/), 'No dead letters.')
  assert.equal((await run('redrive', '--all', '--json')).out, '{"redriven":0,"left":[]}')
})

/** A gateway of 450 dead letters that takes its time, 400 ms a request. */
async function startSlow(t: TestContext) {
  const asked: { dryRun?: boolean; limit?: number; causes?: readonly string[] }[] = []
  let left = 450
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    request.on('end', () => {
      const body = JSON.parse(text) as (typeof asked)[number]
      asked.push(body)
      const redriven = Math.min(left, body.limit ?? left)
      if (body.dryRun !== true) left -= redriven
      const answer = { redriven, left: [], ...(body.limit === undefined ? {} : { more: left > 0 }) }
      response.setHeader('content-type', 'application/json')
      setTimeout(() => response.end(JSON.stringify(answer)), 400)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

test('a redrive that takes longer than a second shows how far it is', async (t) => {
  const { asked, url } = await startSlow(t)
  const bars: string[] = []
  const { code, out } = await sluice(
    ['dead-letters', 'redrive', '--cause', 'shed,circuit_open', '--url', url],
    { redraw: (line) => void bars.push(line) },
  )
  assert.deepEqual([code, out], [0, '450 are on their way again.'])
  assert.deepEqual(
    asked.map(({ dryRun, limit }) => [dryRun, limit]),
    [
      [true, undefined],
      [undefined, 200],
      [undefined, 200],
      [undefined, 50],
    ],
  )
  assert.ok(asked.every(({ causes }) => causes?.join() === 'shed,circuit_open'))
  assert.ok(bars.some((bar) => / 88 % redriven$/.test(bar)))
  assert.equal(bars.at(-1), '', 'the bar is gone at the end')
})

test('a redrive with a limit takes no more, and tells that there are more', async (t) => {
  const { asked, url } = await startSlow(t)
  const run = (...args: string[]) =>
    sluice(['dead-letters', 'redrive', '--all', '--limit', '30', '--url', url, ...args])
  assert.equal((await run()).out, '30 are on their way again. There are more: --limit')
  assert.equal((await run('--json')).out, '{"redriven":30,"left":[],"more":true}')
  assert.ok(asked.every(({ limit }) => limit === 30))
})

test('ids of which none is a dead letter end with 1', async (t) => {
  const gateway = await runningGateway(t)
  const { code, out } = await sluice(['dead-letters', 'redrive', 'nowhere', '--url', gateway.url])
  assert.deepEqual([code, out], [1, '0 are on their way again.\nnowhere stays: it is no dead letter'])
})

test('unknown options of redrive and list are bad usage', async () => {
  for (const args of [
    ['redirve'],
    ['list', 'x'],
    ['list', '--dry-run'],
    ['list', '--all'],
    ['redrive'],
    ['--cause', 'bad'],
    ['--channel', 'emial'],
    ['--limit', 'x'],
    ['redrive', 'a,,b'],
  ]) {
    const { code, err } = await sluice(['dead-letters', ...args], {
      env: { SLUICE_URL: 'http://127.0.0.1:9' },
    })
    assert.equal(code, 2, `${args.join(' ')}: ${err}`)
  }
  assert.match((await sluice(['dead-letters', 'redirve'])).err, /did you mean "redrive"\?/)
})
