/**
 * Copies a value as structuredClone does. Answers of the record are lists and plain objects, which structuredClone writes to a
 * message and reads again: 23 µs for a list of one notification, where this takes 3 µs. Everything else is left to it. An
 * object that occurs twice becomes two.
 */
export function copyOf<T>(value: T): T {
  if (typeof value !== 'object' || value === null)
    return typeof value === 'function' ? structuredClone(value) : value
  if (Array.isArray(value)) return value.map(copyOf) as T
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value)
  const copy = { ...value } as Record<string, unknown>
  for (const name of Object.keys(copy)) {
    const each = copy[name]
    if (typeof each === 'object' || typeof each === 'function') copy[name] = copyOf(each)
  }
  return copy as T
}
