/**
 * A process of the crash test: it accepts, claims, takes over, begins, calls and settles over one record, and writes what
 * it did to its standard output, a line each. A call is a line in a file that outlives it.
 */
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { settled, someNotification } from '../../../src/conformance/store/sample.ts'
import type { Notification } from '../../../src/model.ts'
import { joinAt } from './database.ts'

const [url = '', calls = '', total = '0', beatMs = '2000'] = process.argv.slice(2)
const clock = createSystemClock()
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const atOnce = 20

let isDead = false
let hasDeath = true
const { store, members } = await joinAt(url, clock, {
  beatMs: Number(beatMs),
  onDeclaredDead() {
    isDead = true
    say('dead')
  },
})
members.onDeath(() => {
  hasDeath = true
})
say(`member ${members.id}`)

async function accept(): Promise<void> {
  for (let made = 0; made < Number(total) && !isDead; made += atOnce) {
    const now = clock.now()
    const list = Array.from({ length: atOnce }, () =>
      someNotification({ id: randomUUID(), createdAt: now, dueAt: now }),
    )
    const result = await store.commit({ accept: list }).catch(() => undefined)
    // Whoever writes up to the instant of its claims holds what it wrote.
    if (result?.applied === true) {
      say(`accepted ${list.map(({ id }) => id).join(' ')}`)
      await store.releaseDue(list).catch(() => {})
    } else if (result !== undefined) say('refused')
    await sleep(20)
  }
  say('done')
}

async function send(list: readonly Notification[]): Promise<void> {
  const begunAt = clock.monotonic()
  const { refused, forMs } = await store.begin(list.map((notification) => ({ notification })))
  const moves = []
  for (const notification of list) {
    if (refused.has(notification.id) || clock.monotonic() - begunAt > forMs) continue
    appendFileSync(calls, `${notification.id}\n`)
    moves.push(settled(notification, clock.now()))
    if (moves.length % 5 === 0) await sleep(1)
  }
  const result = await store.commit({ moves })
  if (!result.applied) say(`refused ${result.conflicts.map(({ kind }) => kind).join(' ')}`)
}

async function work(): Promise<void> {
  while (!isDead) {
    try {
      const now = clock.now()
      let list: readonly Notification[] = []
      if (hasDeath) {
        hasDeath = false
        const taken = await store.takeOver(now, atOnce)
        if (taken.length > 0) {
          hasDeath = true
          say(`took ${taken.length}`)
        }
        list = taken.map(({ notification }) => notification)
      }
      if (list.length === 0) list = await store.claimDue(now, atOnce)
      if (list.length === 0) {
        // Nothing else is under way here: these were not called in time, or an answer was lost.
        const lost = await store.heldOnRecord(now - 1_000, null, atOnce)
        list =
          lost.length === 0 ? [] : (await store.takeBack(now, lost)).map(({ notification }) => notification)
      }
      if (list.length === 0) await sleep(20)
      else await send(list)
    } catch {
      await sleep(50)
    }
  }
}

await Promise.all([accept(), work()])
process.exit(3)
