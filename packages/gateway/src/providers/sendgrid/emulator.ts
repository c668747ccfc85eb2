/** Emulates SendGrid's `POST /v3/mail/send`; the bearer token names the account. */
import { bearerOf, type Emulator, json, jsonBody } from '../emulator.ts'

interface Mail {
  readonly personalizations: readonly {
    readonly to: readonly { readonly email: string }[]
    readonly custom_args?: { readonly notification_id?: string }
  }[]
  readonly from: { readonly email: string }
  readonly subject: string
  readonly content: readonly { readonly type: string; readonly value: string }[]
}

const refusal = (status: number, message: string, field: string | null = null) =>
  json(status, { errors: [{ message, field, help: null }] })

export const sendgrid: Emulator = {
  name: 'sendgrid',
  read(request) {
    if (request.path !== '/v3/mail/send') return undefined
    const account = bearerOf(request)
    if (account === undefined) return refusal(401, 'authorization required')
    const mail = jsonBody<Mail>(request)
    const [personalization] = mail?.personalizations ?? []
    const [to] = personalization?.to ?? []
    if (to === undefined) return refusal(400, 'a recipient is required', 'personalizations.0.to')
    if (mail?.from?.email === undefined) return refusal(400, 'a sender is required', 'from.email')
    if (!mail.subject) return refusal(400, 'a subject is required', 'subject')
    if (mail.content === undefined || mail.content.length === 0)
      return refusal(400, 'content is required', 'content')
    return {
      isSend: true,
      account,
      message: {
        id: personalization?.custom_args?.notification_id ?? '',
        tenant: '',
        channel: 'email',
        to: { id: to.email, email: to.email },
      },
    }
  },
  tell({ fate, retryAfter, number, now }) {
    switch (fate) {
      case 'deliver':
        return { status: 202, headers: { 'x-message-id': `sandbox-${number}` } }
      case 'rate_limit':
        // SendGrid answers the instant of the reset and no Retry-After.
        return json(
          429,
          { errors: [{ message: 'too many requests', field: null, help: null }] },
          /^\d+$/.test(retryAfter)
            ? { 'x-ratelimit-reset': String(Math.ceil(now / 1_000) + Number(retryAfter)) }
            : {},
        )
      case 'fail':
        return refusal(503, 'service unavailable')
      case 'reject':
        return refusal(400, 'the content is not valid', 'content.0.value')
      case 'reject_address':
        return refusal(400, 'the address is not valid', 'personalizations.0.to.0.email')
      case 'suspend':
        return refusal(403, 'the account is suspended')
    }
  },
}
