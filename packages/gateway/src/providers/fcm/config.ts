/** Configuration of an account at Firebase Cloud Messaging: the file of a service account holds nearly everything. */
import { Type } from '@sinclair/typebox'
import { readDuration, readRate } from '../../config/quantity.ts'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider, ttlTerm } from '../provider-config.ts'

const json = '^\\s*\\{'

export const fcm = defineProvider({
  channels: ['push'],
  concurrencyMax: 500,
  schemes: ['https:', 'http:'],
  url: 'https://fcm.googleapis.com',
  requires: ['secret'],
  // The limit holds for a project in any minute:
  // https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas
  rate: readRate('600000/min'),
  secretPattern: { pattern: json, expects: 'JSON of a service account' },
  terms: {
    ...callTerms,
    secret: Type.Optional(
      text('the JSON of a service account', {
        secret: true,
        pattern: json,
        description: 'The service account.',
      }),
    ),
    ttl: ttlTerm,
  },
  options: ({ ttl }) => (ttl === undefined ? {} : { ttlMs: readDuration(ttl) }),
})
