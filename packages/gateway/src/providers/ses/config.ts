/** Configuration of an account at Amazon SES. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider, senderTerm } from '../provider-config.ts'

export const ses = defineProvider({
  channels: ['email'],
  concurrencyMax: 64,
  schemes: ['https:', 'http:'],
  urlOptional: true,
  requires: ['accessKeyId', 'secret', 'region', 'from'],
  terms: {
    ...callTerms,
    accessKeyId: Type.Optional(text('an access key ID', { pattern: '^[A-Z0-9]{8,128}$' })),
    secret: Type.Optional(
      text('a secret access key', { secret: true, description: 'The secret access key.' }),
    ),
    sessionToken: Type.Optional(
      text('a session token', { secret: true, description: 'Of temporary credentials.' }),
    ),
    region: Type.Optional(text('a region such as eu-central-1', { pattern: '^[a-z]{2}(-[a-z]+)+-\\d$' })),
    from: senderTerm,
    configurationSet: Type.Optional(
      text('the name of a configuration set', { pattern: '^[A-Za-z0-9_-]{1,64}$' }),
    ),
  },
  options: ({ accessKeyId, sessionToken, region, from, configurationSet }) => ({
    ...(accessKeyId === undefined ? {} : { accessKeyId }),
    ...(sessionToken === undefined ? {} : { sessionToken }),
    ...(region === undefined ? {} : { region }),
    ...(from === undefined ? {} : { from }),
    ...(configurationSet === undefined ? {} : { configurationSet }),
  }),
})
