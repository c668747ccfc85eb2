/**
 * The key of a subject: `<prefix>{<subject>}`, so that in a cluster the subject alone gives the slot. A subject that
 * begins with `}` would leave the braces empty, and then servers hash the whole key while clients read on to the next
 * brace: they ask the wrong node. Its braces hold it without `}`, and a dot behind tells its key from every other.
 */
export function keyOf(prefix: string, subject: string): string {
  if (subject.charCodeAt(0) !== 0x7d) return `${prefix}{${subject}}`
  return `${prefix}{${subject.replaceAll('}', ')')}}${subject}.`
}
