/** Reads `onStateLost` of the policy: what becomes of a category while the server of the limits does not answer. */
import type { Faults } from './faults.ts'
import { join, show } from './faults.ts'
import type { Policy, StateLost } from './policy.ts'

/** Categories are an open set; more of them than limits have no meaning. */
const categoriesMax = 1_000

export function readOnStateLost(value: unknown, faults: Faults): ReadonlyMap<string, StateLost> {
  const read = new Map<string, StateLost>()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    faults.add(
      'onStateLost',
      `expected categories or default, each with hold, share or refuse; this is ${show(value)}`,
    )
    return read
  }
  const entries = Object.entries(value)
  if (entries.length > categoriesMax)
    faults.add('onStateLost', `has ${entries.length} entries, at most ${categoriesMax} are carried`)
  for (const [category, behaviour] of entries.slice(0, categoriesMax)) {
    const path = join('onStateLost', category)
    if (behaviour === 'hold' || behaviour === 'share' || behaviour === 'refuse') read.set(category, behaviour)
    else faults.add(path, `expected hold, share or refuse; this is ${show(behaviour)}`)
  }
  return read
}

/** Names the categories that are shared: these, or all but these where `default` is; undefined where none is. */
export function sharedIn(lost: ReadonlyMap<string, StateLost>): Policy['shared'] {
  const isDefault = lost.get('default') === 'share'
  const categories = [...lost].flatMap(([category, behaviour]) =>
    category !== 'default' && (behaviour === 'share') !== isDefault ? [category] : [],
  )
  if (categories.length === 0 && !isDefault) return undefined
  return { categories, areListed: !isDefault }
}
