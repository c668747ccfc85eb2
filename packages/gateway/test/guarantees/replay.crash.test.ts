/** A gateway that is killed while it makes a replay: no process stays behind, and the next start knows nothing of it. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setPriority } from 'node:os'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite } from '../child.ts'
import { childrenOf, parentOf } from '../process-tree.ts'

function raise(thread: number): void {
  try {
    setPriority(thread, 0)
  } catch (error) {
    // It has ended meanwhile.
    assert.equal((error as NodeJS.ErrnoException).code, 'ERR_SYSTEM_ERROR')
  }
}

test('a gateway that is killed during a replay leaves none behind, and makes the next one', async (t) => {
  const site = await createSite(t)
  await site.start()
  const body = {
    recipient: { id: 'ada', email: 'ada@example.com' },
    channel: 'email',
    content: { text: 'x' },
  }
  assert.equal((await site.call('POST', '/api/v1/notifications', body)).status, 202)
  const period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date().toISOString() }
  const request = { ...period, policy: { version: 1, limits: [] } }
  const started = await site.call('POST', '/api/v1/replays', request)
  assert.equal(started.status, 202, started.text)
  const [replaying, ...others] = childrenOf(site.pid!)
  assert.ok(replaying !== undefined && others.length === 0, 'one process of its own')
  // At its own priority, the lowest, a busy machine would not let it read for minutes that its gateway has gone. Linux
  // keeps one for each thread.
  if (process.platform === 'linux' && process.getuid!() === 0)
    for (const thread of readdirSync(`/proc/${replaying}/task`)) raise(Number(thread))
  await site.kill()
  for (let look = 0; look < 1_800 && parentOf(replaying) !== undefined; look += 1) await sleep(100)
  assert.equal(parentOf(replaying), undefined, 'it ends with the gateway')

  await site.start()
  const { replayId } = started.json<{ replayId: string }>()
  const forgotten = await site.call('GET', `/api/v1/replays/${replayId}`)
  assert.equal(forgotten.status, 404)
  assert.match(forgotten.text, /forgotten when the gateway ends/)
  const next = await site.call('POST', '/api/v1/replays', request)
  assert.equal(next.status, 202, next.text)
  const path = `/api/v1/replays/${next.json<{ replayId: string }>().replayId}`
  assert.equal((await site.call('DELETE', path)).status, 204)
  assert.deepEqual(childrenOf(site.pid!), [])
})
