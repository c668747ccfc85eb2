/**
 * Emulates Twilio's `POST /2010-04-01/Accounts/{sid}/Messages.json`; the account's sid names the account. Twilio's
 * own test numbers are refused here as well: https://www.twilio.com/docs/iam/test-credentials
 */
import { type Emulator, json, retryAfterHeader } from '../emulator.ts'

const refusal = (status: number, code: number, message: string, headers = {}) =>
  json(status, { code, message, more_info: `https://www.twilio.com/docs/errors/${code}`, status }, headers)

/** Texts as Twilio writes them, by number. */
const refusedTo: Readonly<Record<string, readonly [code: number, message: string]>> = {
  '+15005550001': [21211, "The 'To' number is not a valid phone number"],
  '+15005550002': [21612, "The 'To' phone number is not currently reachable using the 'From' phone number"],
  '+15005550003': [21408, 'Permission to send an SMS has not been enabled for the region'],
  '+15005550004': [21610, 'Attempt to send to unsubscribed recipient'],
  '+15005550009': [21614, "'To' number is not a valid mobile number"],
}
const refusedFrom: Readonly<Record<string, readonly [code: number, message: string]>> = {
  '+15005550001': [21212, "The 'From' number is not a valid phone number"],
  '+15005550007': [21606, "The 'From' phone number is not a valid, SMS-capable number for this destination"],
  '+15005550008': [21611, "This 'From' number has exceeded the maximum number of queued messages"],
}

export const twilio: Emulator = {
  name: 'twilio',
  read(request) {
    const sid = /^\/2010-04-01\/Accounts\/([^/]+)\/Messages\.json$/.exec(request.path)?.[1]
    if (sid === undefined) return undefined
    const credentials = /^Basic (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
    const [user, password] = Buffer.from(credentials ?? '', 'base64')
      .toString()
      .split(':')
    if (!user || !password) return refusal(401, 20003, 'Authenticate')
    const form = new URLSearchParams(request.body.toString())
    const to = form.get('To')
    if (!to) return refusal(400, 21604, "A 'To' phone number is required")
    if (!form.get('From') && !form.get('MessagingServiceSid'))
      return refusal(400, 21603, "A 'From' phone number is required")
    if (!form.get('Body')) return refusal(400, 21602, 'Message body is required')
    const validity = form.get('ValidityPeriod')
    if (validity !== null && !(/^\d+$/.test(validity) && +validity >= 1 && +validity <= 36_000))
      return refusal(400, 21624, 'The Validity Period should be a number between 1 and 36000')
    const refused = refusedFrom[form.get('From') ?? ''] ?? refusedTo[to]
    if (refused !== undefined) return refusal(400, ...refused)
    return {
      isSend: true,
      account: sid,
      message: {
        id: String(request.headers['x-notification-id'] ?? ''),
        tenant: '',
        channel: 'sms',
        to: { id: to, phone: to },
      },
    }
  },
  tell({ fate, send, retryAfter, number }) {
    switch (fate) {
      case 'deliver':
        return json(201, {
          sid: `SM${number.toString(16).padStart(32, '0')}`,
          account_sid: send.account,
          to: send.message.to.phone,
          status: 'queued',
        })
      case 'rate_limit':
        return refusal(429, 20429, 'Too Many Requests', retryAfterHeader(retryAfter))
      case 'fail':
        return refusal(503, 20503, 'Service unavailable')
      case 'reject':
        return refusal(400, 21602, 'Message body is required')
      case 'reject_address':
        return refusal(400, 21211, "The 'To' number is not a valid phone number")
      case 'suspend':
        return refusal(400, 90010, 'Account is not active')
    }
  },
}
