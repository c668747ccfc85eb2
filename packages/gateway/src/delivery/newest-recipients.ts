/**
 * Finds the recipients of a batch that is about to be sent. The right to send tells where another process has saved a
 * recipient since; one who forbids to send is asked no right for, and is read again before anything ends by that.
 */
import type { Notification } from '../model.ts'
import type { Store } from '../ports.ts'
import type { Recipients } from '../stages.ts'
import type { SendRules } from './send-rules.ts'

export interface NewestRecipientsOptions {
  readonly rules: Pick<SendRules, 'suppression'>
  readonly store: Pick<Store, 'isVersioned'>
  readonly recipients: Pick<Recipients, 'findAll' | 'forget'>
}

type Batch = readonly { readonly notification: Notification }[]
type Found = ReturnType<Recipients['findAll']>

/** Returns the function that answers as `Recipients.findAll` does, in the order of the batch. */
export function createNewestRecipients({ rules, store, recipients }: NewestRecipientsOptions) {
  function whoForbids(batch: Batch, found: Awaited<Found>): Batch {
    return batch.filter(({ notification }, index) => {
      const recipient = found[index]!
      return !(recipient instanceof Error) && rules.suppression(notification, recipient) !== undefined
    })
  }

  return (batch: Batch): Found => {
    const keys = batch.map(({ notification: { tenant, to } }) => ({ tenant, recipient: to.id }))
    const finding = recipients.findAll(keys)
    if (!store.isVersioned) return finding
    function newest(found: Awaited<Found>): Found {
      const forbidden = whoForbids(batch, found)
      if (forbidden.length === 0) return found
      for (const { notification } of forbidden) recipients.forget(notification.tenant, notification.to.id)
      return recipients.findAll(keys)
    }
    return finding instanceof Promise ? finding.then(newest) : newest(finding)
  }
}
