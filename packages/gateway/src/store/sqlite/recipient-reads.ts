/** Reads recipients by many keys at once: with one question, or a few where they are large. */
import type { Recipient } from '../../model.ts'
import type { RecipientKey, StoredRecipient } from '../../ports.ts'
import type { RecipientText } from './tables/recipients.ts'

export interface RecipientReadsOptions {
  /** Reads the recipients of the first keys, at least one. */
  readonly ask: (keys: readonly RecipientKey[]) => Promise<readonly RecipientText[]>
  /** True if a recipient has no preferences for certain. */
  readonly isNew: (tenant: string, recipient: string) => boolean
  /** The name under which opt-outs of an erased recipient stay; undefined where no recipient was ever erased. */
  readonly pseudonymOf: (tenant: string, recipient: string) => string | undefined
  /** Reports a damaged row; returns its error. */
  readonly damaged: (row: string) => Error
}

type Found = StoredRecipient | Error | undefined

export function createRecipientReads(options: RecipientReadsOptions) {
  const { isNew, pseudonymOf, damaged } = options

  async function ask(keys: readonly RecipientKey[]): Promise<readonly Found[]> {
    const found: Found[] = []
    while (found.length < keys.length)
      for (const text of await options.ask(keys.slice(found.length)))
        if (typeof text === 'object') found.push(damaged(text.damaged))
        else found.push(text === undefined ? undefined : (JSON.parse(text) as Recipient))
    return found
  }

  /** Reads the recipients under their own names, then the missing ones under the pseudonyms of erased ones. */
  async function read(keys: readonly RecipientKey[]): Promise<readonly Found[]> {
    const found: Found[] = new Array(keys.length).fill(undefined)
    const known = [...keys.keys()].filter((index) => !isNew(keys[index]!.tenant, keys[index]!.recipient))
    if (known.length === 0) return found
    const own = await ask(known.map((index) => keys[index]!))
    for (const [nth, index] of known.entries()) found[index] = own[nth]
    const erased = known.flatMap((index) => {
      const { tenant, recipient } = keys[index]!
      const name = found[index] === undefined ? pseudonymOf(tenant, recipient) : undefined
      return name === undefined ? [] : [{ index, key: { tenant, recipient: name } }]
    })
    if (erased.length === 0) return found
    const left = await ask(erased.map(({ key }) => key))
    for (const [nth, { index }] of erased.entries()) {
      const body = left[nth]
      if (body === undefined) continue
      found[index] = body instanceof Error ? body : { ...body, id: keys[index]!.recipient, erased: body.id }
    }
    return found
  }

  return {
    recipients: read,
    async recipient(tenant: string, id: string): Promise<StoredRecipient | undefined> {
      const [found] = await read([{ tenant, recipient: id }])
      if (found instanceof Error) throw found
      return found
    },
  }
}
