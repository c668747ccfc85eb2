/**
 * A store that dies with its process at one commit: nothing is written after it, and nothing is answered. What was on
 * its disk at that moment is copied, so that another gateway can open it.
 */
import { copyFileSync, existsSync } from 'node:fs'
import type { Store } from '../../src/ports.ts'

export interface Mortal {
  readonly store: Store
  readonly dead: boolean
  /** Dies at the n-th commit from here, before it reaches the disk or just after. */
  arm(commits: number, how: 'before' | 'after', callback: () => void): void
}

export function mortal(store: Store, file: string, copy: string): Mortal {
  let countdown = Number.POSITIVE_INFINITY
  let after = false
  let dead = false
  let onDeath: () => void = () => {}
  const never = new Promise<never>(() => {})

  function die(): Promise<never> {
    dead = true
    onDeath()
    for (const end of ['', '-wal']) if (existsSync(file + end)) copyFileSync(file + end, copy + end)
    return never
  }

  return {
    arm(commits, how, callback) {
      countdown = commits
      after = how === 'after'
      onDeath = callback
    },
    get dead() {
      return dead
    },
    store: {
      ...store,
      async commit(change) {
        if (dead) return never
        countdown -= 1
        const last = countdown === 0
        if (last && !after) return die()
        const result = await store.commit(change)
        if (dead) return never
        return last ? die() : result
      },
    },
  }
}
