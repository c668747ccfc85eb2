/**
 * Configuration of an account of the gateway's own WebSockets: it has no fields of its own, because nothing is signed
 * in to.
 */
import { defineProvider } from '../provider-config.ts'

export const websocket = defineProvider({
  channels: ['websocket'],
  concurrencyMax: 1_024,
  schemes: [],
  accountsOptional: true,
  terms: {},
  options: () => ({}),
})
