/**
 * Checks of a draft that its schema cannot make: the depth and size of data, and the address. All but the reader of
 * drafts are pure.
 */
import { bytesOf, dataOf } from '../content.ts'
import { type FieldError, SluiceError } from '../errors.ts'
import { addressField, type Draft, type JsonObject, type Recipient } from '../model.ts'
import { address } from '../policy/preferences.ts'
import type { Clock } from '../ports.ts'
import type { Recipients } from '../stages.ts'
import { isKnownTooDeep } from './body-parts.ts'
import { type Offer, readMessage, readRecipient, withData } from './draft.ts'
import { dataLevelsMax, isDeeperThan } from './json.ts'
import type { NotificationBody } from './schema.ts'
import { invalidRequest } from './validation.ts'
import { aheadOf } from './wall-time.ts'

/**
 * Throws INVALID_REQUEST for data that is too deep, PAYLOAD_TOO_LARGE for data that is too long. `bodyBytes`
 * bounds the data from above: JSON grows at most sixfold when it is read and written again (1e20).
 */
export function checkData(
  data: JsonObject | undefined,
  bodyBytes: number,
  offer: Offer,
  path = '/data',
): void {
  if (data === undefined) return
  if (isKnownTooDeep(data) || isDeeperThan(data, dataLevelsMax)) {
    throw invalidRequest([{ path, message: `must not be deeper than ${dataLevelsMax} levels` }])
  }
  if (bodyBytes * 6 <= offer.dataMaxBytes) return
  const bytes = bytesOf({ data })
  if (bytes > offer.dataMaxBytes) {
    throw new SluiceError(
      'PAYLOAD_TOO_LARGE',
      `data is ${bytes} bytes as JSON; at most ${offer.dataMaxBytes} are taken.`,
    )
  }
}

/**
 * Checks the data of one recipient, which is merged over the common data. Their sizes are added up first, and
 * only where the sum is too much the two are merged and measured. Returns the bytes that it has read.
 */
export function checkOwnData(
  own: JsonObject,
  common: JsonObject | undefined,
  commonBytes: number,
  bodyBytes: number,
  offer: Offer,
  path: string,
): number {
  const ownBytes = bytesOf({ data: own })
  if (ownBytes > offer.dataMaxBytes) checkData(own, bodyBytes, offer, path)
  if (ownBytes + commonBytes > offer.dataMaxBytes) {
    checkData({ ...common, ...dataOf(own) }, bodyBytes, offer, path)
    return ownBytes + commonBytes
  }
  checkData(own, 0, offer, path)
  return ownBytes
}

/** True where the request or the account gives an address; otherwise the recipient must be stored. */
export function hasAddress(draft: Draft, { selfAddressed }: Pick<Offer, 'selfAddressed'>): boolean {
  return selfAddressed.has(draft.channel) || draft.to[addressField[draft.channel]] !== undefined
}

/** The fault of a notification without any address. */
export function missingAddress(
  draft: Draft,
  recipient: Recipient | null,
  path = '/recipient',
): FieldError | undefined {
  if (address(draft.to, recipient, draft.channel) !== undefined) return undefined
  return {
    path: `${path}/${addressField[draft.channel]}`,
    message: 'is required: none is stored for this recipient',
  }
}

/** Makes the draft of one notification of its body, synchronously where no stored address has to be read. */
export type DraftReader = (
  body: NotificationBody,
  tenant: string,
  bodyBytes: number,
  /** The place of the body in the request, as a JSON Pointer. @defaultValue the whole body */
  path?: string,
) => Draft | Promise<Draft>

export function createDraftReader({
  recipients,
  offer,
  clock,
}: {
  readonly recipients: Pick<Recipients, 'find' | 'forget'>
  readonly offer: Offer
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}): DraftReader {
  async function addressed(draft: Draft, tenant: string, path: string): Promise<Draft> {
    const { id } = draft.to
    const faultNow = async () => missingAddress(draft, await recipients.find(tenant, id), `${path}/recipient`)
    if ((await faultNow()) === undefined) return draft
    // Another process may have stored one: its hint may be late, or lost.
    recipients.forget(tenant, id)
    const fault = await faultNow()
    if (fault !== undefined) throw invalidRequest([fault])
    return draft
  }

  return (body, tenant, bodyBytes, path = '') => {
    const message = readMessage(body, clock.now(), offer, aheadOf(clock))
    checkData(message.data, bodyBytes, offer, `${path}/data`)
    const draft: Draft = { to: readRecipient(body.recipient), ...withData(message) }
    return hasAddress(draft, offer) ? draft : addressed(draft, tenant, path)
  }
}
