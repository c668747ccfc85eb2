/** Configuration of an account at Slack: a bot token, or the address of an incoming webhook. */
import { Type } from '@sinclair/typebox'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider } from '../provider-config.ts'

export const slack = defineProvider({
  channels: ['slack'],
  concurrencyMax: 32,
  schemes: ['https:', 'http:'],
  url: 'https://slack.com',
  terms: {
    ...callTerms,
    url: Type.Optional(
      text('a URL', {
        secret: true,
        description: 'Of an incoming webhook (…/services/…), or another base of the API.',
      }),
    ),
    secret: Type.Optional(
      text('a bot token', { secret: true, description: 'The bot token; an incoming webhook needs none.' }),
    ),
  },
  options(account, { path, source }) {
    const named = account.secret ?? account.secretFile ?? account.url ?? account.urlFile
    if (named === undefined && source.isClean([...path, 'secret']))
      source.fault(
        [...path, 'secret'],
        'is missing; expected it, secretFile, or the url of an incoming webhook',
      )
    return {}
  },
})
