/** What an account of the gateway's own WebSockets may say: nothing of its own, there is nobody to sign in to. */
import { defineProvider } from '../provider-config.ts'

export const websocket = defineProvider({
  channels: ['websocket'],
  concurrencyMax: 1_024,
  schemes: [],
  accountsOptional: true,
  terms: {},
  options: () => ({}),
})
