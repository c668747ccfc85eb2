/** What an account at SendGrid may say. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider, senderTerm } from '../provider-config.ts'

export const sendgrid = defineProvider({
  channels: ['email'],
  concurrencyMax: 64,
  schemes: ['https:', 'http:'],
  url: 'https://api.sendgrid.com',
  requires: ['secret', 'from'],
  // https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send: minLength 1, required.
  needsSubject: true,
  terms: {
    ...callTerms,
    secret: Type.Optional(text('an API key', { secret: true, description: 'The API key.' })),
    from: senderTerm,
  },
  options: ({ from }) => (from === undefined ? {} : { from }),
})
