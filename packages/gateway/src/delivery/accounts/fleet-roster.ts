/** The roster of a pool: its accounts, and how their windows are counted in slots. Pure. */
import { createHash } from 'node:crypto'
import type { SlotAnswer, SlotRoster, SlotRule } from '../../ports/account-slots.ts'
import type { FleetAccount } from './fleet-account.ts'
import { ringMax } from './fleet-long-use.ts'

/** @param slotMs the width of a slot of tokens */
export function rosterOf(accounts: readonly FleetAccount[], slotMs: number): SlotRoster {
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

/** Returns the calls in the run of each window of an account. */
export function usesOf(
  { index, windows }: FleetAccount,
  { rules }: SlotRoster,
  uses: SlotAnswer['uses'],
): readonly number[] {
  return windows.map(({ windowMs }) => {
    const row = rules.findIndex((rule) => rule.windowMs === windowMs)
    return uses[row]?.[index] ?? 0
  })
}
