/**
 * The adapter of every provider that makes calls. Each adapter brings its own client, so only the providers of the
 * configured pools are loaded.
 */
import type { Clock, Presence, Provider } from '../ports.ts'
import type { Egress } from './transport/egress.ts'
import { redact } from './transport/redact.ts'

export interface ProviderContext {
  /** Wall clock: providers compare it with dates in answers and tokens. */
  readonly clock: Pick<Clock, 'now'>
  /** True when an address that came with a request may lead into a private network. */
  readonly allowPrivate: boolean
  /** Longest time from a call to its result that a pool of this provider allows, ms. */
  readonly deadlineMs: number
  /** The gateway's own WebSocket connections. */
  readonly presence: Presence
  /** Proxy and certificate authorities for calls over HTTP. */
  readonly egress?: Egress | undefined
}

const loaders = {
  async apns({ clock, deadlineMs, egress }) {
    const { createApnsProvider } = await import('./apns/adapter.ts')
    return createApnsProvider({ clock, deadlineMs, egress })
  },
  async fcm({ clock, deadlineMs, egress }) {
    const { createFcmProvider } = await import('./fcm/adapter.ts')
    return createFcmProvider({ clock, deadlineMs, egress })
  },
  async sendgrid({ clock, deadlineMs, egress }) {
    const { createSendgridProvider } = await import('./sendgrid/adapter.ts')
    return createSendgridProvider({ clock, deadlineMs, egress })
  },
  async smtp({ clock, deadlineMs }) {
    const { createSmtpProvider } = await import('./smtp/adapter.ts')
    return createSmtpProvider({ clock, deadlineMs })
  },
  async ses(context) {
    const { createSesProvider } = await import('./ses/adapter.ts')
    return createSesProvider(context)
  },
  async slack({ deadlineMs, egress }) {
    const { createSlackProvider } = await import('./slack/adapter.ts')
    return createSlackProvider({ deadlineMs, egress })
  },
  async telegram({ clock, deadlineMs, egress }) {
    const { createTelegramProvider } = await import('./telegram/adapter.ts')
    return createTelegramProvider({ clock, deadlineMs, egress })
  },
  async twilio({ clock, deadlineMs, egress }) {
    const { createTwilioProvider } = await import('./twilio/adapter.ts')
    return createTwilioProvider({ clock, deadlineMs, egress })
  },
  async webpush(context) {
    const { createWebPushProvider } = await import('./webpush/adapter.ts')
    return createWebPushProvider(context)
  },
  async webhook(context) {
    const { createWebhookProvider } = await import('./webhook/adapter.ts')
    return createWebhookProvider(context)
  },
  async websocket(context) {
    const { createWebSocketProvider } = await import('./websocket/adapter.ts')
    return createWebSocketProvider(context)
  },
} as const satisfies Readonly<Record<string, (context: ProviderContext) => Promise<Provider>>>

export type LoadedProvider = keyof typeof loaders

export async function loadProvider(name: LoadedProvider, context: ProviderContext): Promise<Provider> {
  return redact(await loaders[name](context))
}
