/**
 * Caches results by the kind of a notification. To a set of selectors two notifications are alike when they
 * agree in every value that some selector names: all categories that no selector names are one. So the number
 * of kinds is bounded by the policy and not by what clients send, and a kind is one number.
 */
import type { Selectable, Selector, SelectorField } from './selector.ts'
import { selectorFields } from './selector.ts'

/** Different values of one field that the selectors may name; with five fields a kind stays an exact number. */
export const namedMax = 1_000

/** Kinds that are cached. All of them are computed again after that: cheap, and no policy in use comes near. */
const kindsMax = 10_000

/** The values that selectors name, each with its number from 1; 0 is every other value. */
export function namedValues(
  selectors: readonly Selector[],
): Readonly<Record<SelectorField, ReadonlyMap<string, number>>> {
  const named: Record<SelectorField, Map<string, number>> = {
    category: new Map(),
    channel: new Map(),
    module: new Map(),
    priority: new Map(),
    template: new Map(),
  }
  for (const selector of selectors) {
    if (selector.kind !== 'fields') continue
    for (const field of selectorFields) {
      for (const value of selector.fields[field] ?? []) {
        if (!named[field].has(value)) named[field].set(value, named[field].size + 1)
      }
    }
  }
  return named
}

/** Caches the result of `workOut` for each kind; it must depend only on the values that the selectors name. */
export function createLookup<T>(
  selectors: readonly Selector[],
  workOut: (of: Selectable) => T,
): (of: Selectable) => T {
  const { category, channel, module, priority, template } = namedValues(selectors)
  const channels = channel.size + 1
  const modules = module.size + 1
  const priorities = priority.size + 1
  const templates = template.size + 1
  let known = new Map<number, T>()

  return (of) => {
    let kind = category.get(of.category) ?? 0
    kind = kind * channels + (channel.get(of.channel) ?? 0)
    kind = kind * modules + (module.get(of.module) ?? 0)
    kind = kind * priorities + (priority.get(of.priority) ?? 0)
    if (templates > 1 && of.template !== undefined) kind = kind * templates + (template.get(of.template) ?? 0)
    else kind *= templates
    let found = known.get(kind)
    if (found === undefined) {
      found = workOut(of)
      if (known.size >= kindsMax) known = new Map()
      known.set(kind, found)
    }
    return found
  }
}
