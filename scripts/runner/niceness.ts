/**
 * Preloaded with `?by=<number>` into test processes that run beside others which kill at a chosen moment: it lowers their
 * priority, and with it that of all that they start, by so much. A thread of theirs begins with it.
 */
import { getPriority, setPriority } from 'node:os'
import { isMainThread } from 'node:worker_threads'

const by = Number(new URL(import.meta.url).searchParams.get('by'))
try {
  if (isMainThread) setPriority(Math.min(19, getPriority() + by))
} catch {
  // Where that is forbidden, they run as all others.
}
