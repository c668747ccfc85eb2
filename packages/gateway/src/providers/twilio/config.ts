/** Configuration of an account at Twilio. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider } from '../provider-config.ts'

export const twilio = defineProvider({
  channels: ['sms'],
  concurrencyMax: 64,
  schemes: ['https:', 'http:'],
  url: 'https://api.twilio.com',
  requires: ['secret', 'sid'],
  authToken: true,
  terms: {
    ...callTerms,
    sid: Type.Optional(
      text('an account SID: AC and 32 hexadecimal digits', { pattern: '^AC[0-9a-fA-F]{32}$' }),
    ),
    key: Type.Optional(
      text('an API key SID: SK and 32 hexadecimal digits', {
        pattern: '^SK[0-9a-fA-F]{32}$',
        description: 'With it the secret is the key’s; without it the secret is the auth token.',
      }),
    ),
    from: Type.Optional(
      text('a phone number such as +15550100200, a short code or an alphanumeric sender', {
        description: 'The sender; a messaging service chooses its own.',
      }),
    ),
    messagingService: Type.Optional(
      text('a messaging service SID: MG and 32 hexadecimal digits', { pattern: '^MG[0-9a-fA-F]{32}$' }),
    ),
  },
  options({ sid, key, from, messagingService }, { path, source }) {
    if (from === undefined && messagingService === undefined && source.isClean([...path, 'from']))
      source.fault([...path, 'from'], 'is missing; expected it or messagingService')
    return {
      ...(sid === undefined ? {} : { sid }),
      ...(key === undefined ? {} : { key }),
      ...(from === undefined ? {} : { from }),
      ...(messagingService === undefined ? {} : { messagingService }),
    }
  },
})
