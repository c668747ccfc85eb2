/**
 * Makes the examples of the published document: written ones for the bodies that people copy, generated ones for the
 * answers, so that no field is without a value. The linters hold each against its schema.
 */
import type { TSchema } from '@sinclair/typebox'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** Examples by the name of the schema. */
const written: Readonly<Record<string, Json>> = {
  NotificationRequest: {
    recipient: { id: 'user-42', email: 'ada@example.com', timeZone: 'Europe/Rome' },
    channel: 'email',
    category: 'product',
    content: { subject: 'A new comment', text: 'Grace answered you.' },
    actor: 'author-7',
  },
  BatchRequest: {
    recipients: ['user-42', { id: 'user-43', email: 'grace@example.com' }],
    channel: 'email',
    category: 'marketing',
    content: { subject: 'News of November', text: 'Here they are.' },
  },
  RecipientRequest: {
    email: 'ada@example.com',
    timeZone: 'Europe/Rome',
    quietHours: { default: { from: '22:00', to: '08:00' } },
    optOuts: [{ category: 'marketing', channel: 'email' }],
  },
  RecipientPatch: { timeZone: 'Europe/Rome', phone: null },
  Recipient: {
    id: 'user-42',
    email: 'ada@example.com',
    timeZone: 'Europe/Rome',
    quietHours: { default: { from: '22:00', to: '08:00' } },
  },
  RedriveRequest: { cause: 'attempts_exhausted', channel: 'email', dryRun: true },
  PolicyRequest: {
    version: 1,
    limits: [{ name: 'marketing-email', for: { category: 'marketing' }, max: ['2/day'], over: 'delay' }],
  },
  Policy: { version: 'c0d6423a28aae2c2', policy: { version: 1, limits: [] } },
  Explanation: {
    verdict: 'waits',
    reason: 'recipient_limit',
    limit: 'marketing-email',
    window: '2/day',
    until: '2026-11-24T08:14:00.000Z',
    untilIs: 'booked',
    next: ['cancel'],
    text: 'Waits until 2026-11-24 08:14:00Z: the limit marketing-email admits 2/day, and its places are used or booked until then.',
  },
  Problem: {
    type: 'urn:sluice:problem:invalid-request',
    title: 'The request does not match its schema',
    status: 400,
    detail: '/recipient/email must be one email address such as ada@example.com.',
    code: 'INVALID_REQUEST',
    errors: [{ path: '/recipient/email', message: 'must be one email address such as ada@example.com' }],
    requestId: '01M81DT38GZFX8GKPN84CKMDGC',
  },
}

/** Examples by the name of a field whose text means something. */
const byField: Readonly<Record<string, Json>> = {
  notificationId: '01M81DT38GZFX8GKPN84CKMDGC',
  requestId: '01M81DT4QZ6T0J2VG9C9R67PBA',
  jobId: '01M81DT5Q25847JY2EM6TJTBN6',
  example: '01M81DT38GZFX8GKPN84CKMDGC',
  tenant: 'acme',
  module: 'shop',
  recipient: 'user-42',
  category: 'marketing',
  reason: 'recipient_limit',
  limit: 'marketing-email',
  window: '2/day',
  provider: 'ses',
  account: 'ses-1',
  rate: '100/s',
  policyVersion: 'c0d6423a28aae2c2',
  version: '0.1.0',
  cause: 'attempts_exhausted',
  code: 'POOL_OUT',
  route: '/api/v1/notifications',
  path: '/api/v1/notifications',
  method: 'POST',
}

const byFormat: Readonly<Record<string, string>> = {
  email: 'ada@example.com',
  phone: '+393331234567',
  'web-url': 'https://example.com/hook',
  'time-zone': 'Europe/Rome',
  locale: 'it-IT',
  'date-time': '2026-11-22T09:00:00.000Z',
  'wall-time': '22:00',
  category: 'product',
}

/** An example that the schema admits; `field` is the name of the property that it is for. */
export function exampleOf(schema: TSchema, field = ''): Json {
  const { $id, enum: values, const: only, anyOf, oneOf, format } = schema
  if ($id !== undefined && Object.hasOwn(written, $id)) return written[$id]!
  if (only !== undefined) return only
  if (Array.isArray(values)) return values[0]
  const choice = anyOf ?? oneOf
  if (Array.isArray(choice)) return exampleOf(choice[0], field)
  const type = Array.isArray(schema.type) ? schema.type.find((each: string) => each !== 'null') : schema.type
  switch (type) {
    case 'object':
      return objectOf(schema)
    case 'array':
      return [exampleOf(schema.items, field)]
    case 'integer':
    case 'number':
      return schema.default ?? Math.max(schema.minimum ?? 0, 1)
    case 'boolean':
      return true
    case 'string':
      if (format !== undefined && Object.hasOwn(byFormat, format)) return byFormat[format]!
      return byField[field] ?? (field === '' ? 'text' : field)
    default:
      return null
  }
}

function objectOf({ properties = {} }: TSchema): Json {
  const fields = Object.entries(properties as Record<string, TSchema>)
  return Object.fromEntries(fields.map(([name, property]) => [name, exampleOf(property, name)]))
}
