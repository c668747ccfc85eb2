/** Stored answers after an erasure: an answer names recipients in the results of a batch, and nowhere else. Pure. */

interface Result {
  readonly recipient: string
  readonly detail?: string
}

/**
 * Returns the text of an answer with the recipient under another name: the same text where the recipient has no result in it.
 * A result without a notification has the words of its error, which may contain an address.
 */
export function erasedAnswer(body: string, recipient: string, name: string): string {
  // An id may be a word of every answer, `status`: most texts are read in vain for those alone.
  if (!body.includes(JSON.stringify(recipient))) return body
  const answer = JSON.parse(body) as { readonly results?: readonly Result[] }
  if (answer.results?.some((each) => each.recipient === recipient) !== true) return body
  const results = answer.results.map((each) => {
    if (each.recipient !== recipient) return each
    return { ...each, recipient: name, ...('detail' in each ? { detail: 'erased' } : {}) }
  })
  return JSON.stringify({ ...answer, results })
}
