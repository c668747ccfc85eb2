/** Configuration of an account at SendGrid. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider, senderTerm } from '../provider-config.ts'

export const sendgrid = defineProvider({
  channels: ['email'],
  concurrencyMax: 64,
  schemes: ['https:', 'http:'],
  url: 'https://api.sendgrid.com',
  requires: ['secret', 'from'],
  // SendGrid requires a subject of at least 1 character:
  // https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send
  needsSubject: true,
  terms: {
    ...callTerms,
    secret: Type.Optional(text('an API key', { secret: true, description: 'The API key.' })),
    from: senderTerm,
  },
  options: ({ from }) => (from === undefined ? {} : { from }),
})
