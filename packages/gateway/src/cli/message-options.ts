/** The options by which `sluice send` and `sluice decide` describe a notification, and the body made of them. */
import { channels, priorities } from '../model.ts'
import type { Arguments, CommandForm, OptionForm } from './command.ts'
import { badUsage, oneOfOption } from './command.ts'
import { instantTextOption } from './instant-option.ts'

export const messageOptions = {
  to: { value: '<recipient>', text: 'The id of the recipient' },
  email: { value: '<address>', text: 'Their address, where none is stored' },
  phone: { value: '<number>', text: 'In E.164, such as +391234567890' },
  'push-token': { value: '<token>', text: 'Of their device' },
  webhook: { value: '<url>', text: 'Their endpoint' },
  'time-zone': { value: '<zone>', text: 'Such as Europe/Rome' },
  channel: { value: '<channel>', text: `One of ${channels.join(', ')}; email by default` },
  category: { value: '<category>', text: 'Such as billing; product by default' },
  priority: { value: '<priority>', text: `One of ${priorities.join(', ')}` },
  subject: { value: '<text>', text: 'Of the content' },
  text: { value: '<text>', text: 'Of the content' },
  template: { value: '<name>', text: 'In place of content' },
  data: { value: '<json>', text: 'Of the template' },
  actor: { value: '<id>', text: 'Who caused it' },
  at: { value: '<instant>', text: 'Not before this instant' },
  expires: { value: '<instant>', text: 'Of no use from this instant on' },
} as const satisfies Record<string, OptionForm>

const recipientFields = {
  email: 'email',
  phone: 'phone',
  pushToken: 'push-token',
  webhookUrl: 'webhook',
  timeZone: 'time-zone',
} as const
const plainFields = {
  category: 'category',
  template: 'template',
  actor: 'actor',
} as const

/** @throws SluiceError `BAD_USAGE` */
export function messageBody(form: CommandForm, args: Arguments): Record<string, unknown> {
  const id = args.text('to')
  if (id === undefined) throw badUsage(form, '--to is missing: the id of the recipient')
  const [subject, text, data] = [args.text('subject'), args.text('text'), args.text('data')]
  return {
    recipient: { id, ...given(args, recipientFields) },
    channel: oneOfOption(form, args, 'channel', channels) ?? 'email',
    ...given(args, plainFields),
    ...defined('sendAt', instantTextOption(form, args, 'at')),
    ...defined('expiresAt', instantTextOption(form, args, 'expires')),
    ...defined('priority', oneOfOption(form, args, 'priority', priorities)),
    ...(subject === undefined && text === undefined
      ? {}
      : { content: { ...defined('subject', subject), ...defined('text', text) } }),
    ...(data === undefined ? {} : { data: jsonOf(form, data) }),
  }
}

const defined = (name: string, value: unknown): Record<string, unknown> =>
  value === undefined ? {} : { [name]: value }

function given(args: Arguments, fields: Readonly<Record<string, string>>): Record<string, unknown> {
  return Object.assign(
    {},
    ...Object.entries(fields).map(([field, option]) => defined(field, args.text(option))),
  )
}

function jsonOf(form: CommandForm, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw badUsage(form, '--data is no JSON')
  }
}
