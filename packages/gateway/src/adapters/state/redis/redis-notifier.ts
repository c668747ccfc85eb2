/** Hints between the processes of a fleet, by publishing them in Redis: nothing waits for a hint that is lost. */
import type { Hint, Notifier } from '../../../ports/fleet.ts'
import type { RedisBus } from './redis-bus.ts'

export interface RedisNotifierOptions {
  readonly bus: Pick<RedisBus, 'publish' | 'subscribe'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Precedes the channel. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/** Resolves when it listens, or has tried once. */
export async function createRedisNotifier(options: RedisNotifierOptions): Promise<Notifier> {
  const { bus, member, prefix = 'sl:', onError } = options
  const channel = `${prefix}hints`
  const listeners = new Set<(hint: Hint) => void>()
  let isOpen = true

  function hear(text: string): void {
    try {
      const { by, hint } = JSON.parse(text) as { by: string; hint: Hint }
      if (by === member) return
      for (const listener of listeners) give(hint, listener)
    } catch (error) {
      onError?.(error)
    }
  }

  /** Gives the hint to the others, too, where one listener throws. */
  function give(hint: Hint, listener: (hint: Hint) => void): void {
    try {
      listener(hint)
    } catch (error) {
      onError?.(error)
    }
  }

  await bus.subscribe(channel, hear)

  return {
    tell(hint) {
      if (isOpen) bus.publish(channel, JSON.stringify({ by: member, hint }))
    },
    listen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      isOpen = false
      listeners.clear()
    },
  }
}
