/**
 * A disk that is full, under a gateway that is busy: it says so and takes nothing, keeps what it had taken, and goes
 * on by itself when there is room again. What had been sent meanwhile and could not be written down is not sent twice.
 */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, createSite, startSink } from '../child.ts'

const disk = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
const mounted = mount()
after(() => {
  if (mounted) execFileSync('umount', ['--lazy', disk])
  rmSync(disk, { recursive: true, force: true })
})

function mount(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', disk], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Takes all the room that is left; returns how many bytes that was. */
function fill(file: string): number {
  const descriptor = openSync(file, 'w')
  let bytes = 0
  try {
    for (const size of [65_536, 4_096, 1]) {
      try {
        for (;;) bytes += writeSync(descriptor, Buffer.alloc(size))
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
      }
    }
  } finally {
    closeSync(descriptor)
  }
  return bytes
}

const skip = mounted ? false : 'no file system of its own can be mounted here'

test('a full disk answers 503, loses and duplicates no notification, and recovers', {
  skip,
}, async (t) => {
  const sink = await startSink(t, 'http')
  // Long enough that calls are under way when the disk is full, and end while it is.
  await sink.rules([{ delayMs: 400 }])
  const account = { id: 'hook', url: `${sink.url}/in`, rate: 'unlimited', concurrency: 64 }
  const pools = { email: { provider: 'webhook', accounts: [account] } }
  const site = await createSite(t, {
    folder: join(disk, 'site'),
    policy: { version: 1, limits: [] },
    config: { pools, log: { level: 'silent' } },
  })
  await site.start()

  let serial = 0
  const accepted: string[] = []
  async function post(): Promise<Answer> {
    serial += 1
    const answer = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: `person-${serial}`, email: `person-${serial}@example.com` },
      channel: 'email',
      content: { subject: `Message ${serial}`, text: 'x'.repeat(4_000) },
    })
    if (answer.status === 202) accepted.push(answer.json<{ notificationId: string }>().notificationId)
    return answer
  }
  /** Posts eight at a time until one is answered with the status. */
  async function postUntil(status: number): Promise<Answer> {
    for (let round = 0; round < 500; round += 1) {
      const answers = await Promise.all(Array.from({ length: 8 }, post))
      const found = answers.find((answer) => answer.status === status)
      if (found !== undefined) return found
      await sleep(10)
    }
    throw new Error(`no ${status} in 4,000 requests`)
  }
  async function arrived(): Promise<string[]> {
    const { requests } = await sink.dump()
    return requests.map(({ headers }) => headers['webhook-id'] as string)
  }

  await Promise.all(Array.from({ length: 200 }, post))
  const filler = join(disk, 'filler')
  const bytes = fill(filler)
  const refusal = await postUntil(503)
  const before = { accepted: accepted.length, arrived: (await arrived()).length }
  assert.equal(refusal.json<{ code: string }>().code, 'STORE_UNAVAILABLE')
  assert.match(String(refusal.headers['content-type']), /^application\/problem\+json/)
  assert.match(String(refusal.headers['retry-after']), /^[1-9]\d*$/)

  // Full for a while, and asked on: what was under way ends at the provider and cannot be written down.
  const fullUntil = performance.now() + 3_000
  let refused = 0
  while (performance.now() < fullUntil) {
    if ((await post()).status === 503) refused += 1
    await sleep(50)
  }
  const during = { accepted: accepted.length, arrived: (await arrived()).length }
  assert.ok(refused > 10, `${refused} refused`)
  assert.equal((await site.call('GET', '/healthz')).status, 200, 'it lives')
  assert.equal(
    (await site.call('GET', `/api/v1/notifications/${accepted[0]}`)).status,
    200,
    'it can be asked',
  )

  rmSync(filler)
  const freedAt = performance.now()
  await postUntil(202)
  const recoveredMs = performance.now() - freedAt
  for (let tries = 0; tries < 300 && (await arrived()).length < accepted.length; tries += 1) await sleep(100)
  await sleep(1_000)

  const ids = await arrived()
  t.diagnostic(
    `${bytes} bytes filled; ${before.accepted} accepted and ${before.arrived} sent when it was full, ` +
      `${during.arrived} sent by the end of it, ${refused} refused, taken again after ${recoveredMs.toFixed(0)} ms; ` +
      `${accepted.length} accepted and ${ids.length} sent in all`,
  )
  assert.ok(during.arrived > 0)
  assert.deepEqual(ids.sort(), accepted.sort(), 'each that was accepted has arrived, and once')
  const states: Record<string, number> = {}
  for (const id of accepted) {
    const { status } = (await site.call('GET', `/api/v1/notifications/${id}`)).json<{ status: string }>()
    states[status] = (states[status] ?? 0) + 1
  }
  assert.deepEqual(states, { delivered: accepted.length }, 'and is settled')
})
