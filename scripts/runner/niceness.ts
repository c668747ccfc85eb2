/**
 * Preloaded with `?by=<number>` into test processes that run beside others which kill at a chosen moment: it lowers their
 * priority, and with it that of all that they start, by so much.
 */
import { getPriority, setPriority } from 'node:os'

const by = Number(new URL(import.meta.url).searchParams.get('by'))
try {
  setPriority(Math.min(19, getPriority() + by))
} catch {
  // Where that is forbidden, they run as all others.
}
