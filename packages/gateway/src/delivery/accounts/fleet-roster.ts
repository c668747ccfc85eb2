/** The roster of a pool: its accounts, and how their windows are counted in slots. Pure. */
import { createHash } from 'node:crypto'
import type { SlotRoster, SlotRule } from '../../ports/account-slots.ts'
import type { FleetAccount } from './fleet-account.ts'
import { ringMax, slotMs } from './fleet-long-use.ts'

export function rosterOf(accounts: readonly FleetAccount[]): SlotRoster {
  const lengths = new Set(accounts.flatMap(({ windows }) => windows.map(({ windowMs }) => windowMs)))
  const rules = Array.from(lengths, (windowMs): SlotRule => {
    const width = Math.ceil(windowMs / (slotMs * ringMax))
    return {
      windowMs,
      width,
      run: Math.ceil(windowMs / (slotMs * width)) + 1,
      max: accounts.map(({ windows }) => {
        const own = windows.filter((window) => window.windowMs === windowMs)
        return own.length === 0 ? -1 : Math.min(...own.map(({ max }) => max))
      }),
    }
  })
  const content = {
    names: accounts.map(({ account }) => account.id),
    concurrency: accounts.map(({ options }) => options.concurrencyMax),
    rules,
  }
  const id = createHash('sha256').update(JSON.stringify(content)).digest('base64url').slice(0, 16)
  return { id, ...content }
}
