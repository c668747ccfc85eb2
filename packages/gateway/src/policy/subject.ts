/**
 * The keys under which things are counted: one for a person, one for each value set of a limit that is not per
 * recipient. A person's key holds one slash and the others two, so none is ever taken for another.
 */
import type { Subject } from '../ports.ts'

/** Everything about a person within a tenant: all limits of theirs are asked and counted as one. */
export function personSubject(tenant: string, recipient: string): Subject {
  return { key: `${encodeKey(tenant)}/${encodeKey(recipient)}`, tenant, recipient }
}

/** @param values - as `valuesText` writes them; empty for what counts the tenant as a whole */
export function valuesSubject(tenant: string, values: string): Subject {
  return { key: `${encodeKey(tenant)}//${values}`, tenant }
}

const plain = /^[\w.-]+$/

/** As encodeURIComponent, which is slower for ids that need nothing, and throws on half a character. */
function encodeKey(text: string): string {
  if (plain.test(text)) return text
  return text.isWellFormed() ? encodeURIComponent(text) : `%${encodeURIComponent(JSON.stringify(text))}`
}
