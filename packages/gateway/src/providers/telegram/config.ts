/** Configuration of a Telegram bot. Its limit: about 30 messages a second over all chats (Bots FAQ). */
import { Type } from '@sinclair/typebox'
import { readRate } from '../../config/quantity.ts'
import { text } from '../../config/schema-terms.ts'
import { callTerms, defineProvider } from '../provider-config.ts'

const botToken = '^\\d{1,20}:[A-Za-z0-9_-]{20,100}$'

export const telegram = defineProvider({
  channels: ['telegram'],
  concurrencyMax: 32,
  schemes: ['https:', 'http:'],
  url: 'https://api.telegram.org',
  requires: ['secret'],
  // Source of the rate: https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
  rate: readRate('30/s'),
  secretPattern: { pattern: botToken, expects: 'bot token such as 123456:ABC-DEF…' },
  terms: {
    ...callTerms,
    secret: Type.Optional(
      text('a bot token such as 123456:ABC-DEF…', {
        secret: true,
        pattern: botToken,
        description: 'The bot’s token.',
      }),
    ),
  },
  options: () => ({}),
})
