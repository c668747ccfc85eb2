/** Configuration of an account of Web Push: a key pair of its own, for no service keeps an account. */
import { Type } from '@sinclair/typebox'
import { readDuration, readRate } from '../../config/quantity.ts'
import { text } from '../../config/schema-terms.ts'
import { defineProvider, ttlTerm } from '../provider-config.ts'

const key = '^[A-Za-z0-9_-]{43}$'

/** Hosts of Chrome and Edge, Firefox, Safari, and older Edge. */
const usualServices = [
  'fcm.googleapis.com',
  '*.push.services.mozilla.com',
  '*.push.apple.com',
  '*.notify.windows.com',
]

export const webpush = defineProvider({
  channels: ['push'],
  concurrencyMax: 128,
  schemes: [],
  requires: ['secret', 'subject'],
  // No service publishes a rate; an account that names none gets the channel's.
  rate: readRate('500/s'),
  secretPattern: { pattern: key, expects: 'private key of VAPID: 32 bytes in base64url' },
  terms: {
    secret: Type.Optional(
      text('a private key of VAPID: 32 bytes in base64url', {
        secret: true,
        pattern: key,
        description: 'The private key of VAPID (RFC 8292).',
      }),
    ),
    secretFile: Type.Optional(text('the path of a file that holds the secret')),
    subject: Type.Optional(
      text('mailto: and an address, or an https URL', {
        pattern: '^(mailto:[^\\s@]+@[^\\s@]+|https://\\S+)$',
        description: 'Whom push services write to when something is wrong.',
      }),
    ),
    services: Type.Optional(
      Type.Array(text('a host such as push.example.com or *.push.example.com'), {
        maxItems: 100,
        expects: 'a list of hosts',
        description:
          'Push services whose refusals and failures count for the account. Default: those of the browsers.',
      }),
    ),
    ttl: ttlTerm,
  },
  options: ({ subject, services = usualServices, ttl }) => ({
    ...(subject === undefined ? {} : { subject }),
    services,
    ...(ttl === undefined ? {} : { ttlMs: readDuration(ttl) }),
  }),
})
