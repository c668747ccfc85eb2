/** Configuration of an account that is an address to POST to. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { channels } from '../../model.ts'
import { defineProvider } from '../provider-config.ts'

/** Standard Webhooks, spec 1.0: the key in whole groups of base64. */
export const webhookSecret =
  '^whsec_(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?|[A-Za-z0-9+/]{4})$'

export const webhook = defineProvider({
  channels,
  concurrencyMax: 64,
  schemes: ['http:', 'https:'],
  accountsOptional: true,
  addressedBy: 'webhook',
  secretPattern: { pattern: webhookSecret, expects: 'whsec_ and key in base64' },
  terms: {
    url: Type.Optional(
      text('an http or https URL', { description: 'Default: the recipient’s webhookUrl.', secret: true }),
    ),
    urlFile: Type.Optional(text('the path of a file that holds the URL')),
    secret: Type.Optional(
      text('whsec_ and a key in base64', {
        pattern: webhookSecret,
        description: 'Signs the calls (Standard Webhooks).',
        secret: true,
      }),
    ),
    secretFile: Type.Optional(text('the path of a file that holds the secret')),
  },
  options: () => ({}),
})
