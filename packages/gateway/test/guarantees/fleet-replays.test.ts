/** A replay that one of two gateways makes: the other one answers for it, and never says that there is none while it cannot know. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startFleet } from './fleet.ts'

after(dropSchemas)

interface Replay {
  readonly replayId: string
  readonly status: string
  readonly result?: object
}

test('any gateway answers for a replay and ends it', needs('postgres', 'redis'), async (t) => {
  const policy = { version: 1, limits: [] }
  const { sites } = await startFleet(t, { name: 'replays', count: 2, policy })
  const [maker, other] = [sites[0]!, sites[1]!]
  const body = { recipient: { id: 'ada' }, channel: 'webhook', content: { text: 'Hello' } }
  assert.equal((await other.call('POST', '/api/v1/notifications', body)).status, 202)
  const period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date().toISOString() }
  const started = await maker.call('POST', '/api/v1/replays', { ...period, policy })
  assert.equal(started.status, 202, started.text)
  const path = `/api/v1/replays/${started.json<Replay>().replayId}`

  // A gateway that is stopped and not yet declared dead may have it.
  process.kill(maker.pid!, 'SIGSTOP')
  const unknown = await other.call('GET', path)
  process.kill(maker.pid!, 'SIGCONT')
  assert.deepEqual([unknown.status, unknown.json<{ code: string }>().code], [503, 'STATE_UNAVAILABLE'])

  let found: Replay = { replayId: '', status: 'running' }
  for (const end = performance.now() + 120_000; performance.now() < end; await sleep(200)) {
    const answer = await other.call('GET', path)
    if (answer.status === 200) found = answer.json<Replay>()
    if (found.status !== 'running') break
  }
  assert.deepEqual([found.status, typeof found.result], ['done', 'object'])
  assert.equal((await other.call('DELETE', path)).status, 204)
  for (const site of sites) assert.equal((await site.call('GET', path)).status, 404)
})
