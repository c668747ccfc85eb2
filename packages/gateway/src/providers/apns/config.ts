/** Configuration of an account at APNs: a key of the team, and the app that it sends to. */
import { Type } from '@sinclair/typebox'
import { readDuration } from '../../config/quantity.ts'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider, ttlTerm } from '../provider-config.ts'

const pem = '^-----BEGIN PRIVATE KEY-----'

export const apns = defineProvider({
  channels: ['push'],
  concurrencyMax: 500,
  schemes: ['https:', 'http:'],
  url: 'https://api.push.apple.com',
  requires: ['secret', 'keyId', 'teamId', 'topic'],
  secretPattern: { pattern: pem, expects: 'private key in PEM (.p8)' },
  terms: {
    ...callTerms,
    secret: Type.Optional(
      text('a private key in PEM', {
        secret: true,
        pattern: pem,
        description: 'The key, as in its .p8 file.',
      }),
    ),
    keyId: Type.Optional(text('the id of the key: ten letters or digits', { pattern: '^[A-Z0-9]{10}$' })),
    teamId: Type.Optional(text('the id of the team: ten letters or digits', { pattern: '^[A-Z0-9]{10}$' })),
    topic: Type.Optional(
      text('the bundle id of the app', { pattern: '^[A-Za-z0-9.-]{1,255}$', description: 'The app.' }),
    ),
    ttl: ttlTerm,
  },
  options: ({ keyId, teamId, topic, ttl }) => ({
    ...(keyId === undefined ? {} : { keyId }),
    ...(teamId === undefined ? {} : { teamId }),
    ...(topic === undefined ? {} : { topic }),
    ...(ttl === undefined ? {} : { ttlMs: readDuration(ttl) }),
  }),
})
