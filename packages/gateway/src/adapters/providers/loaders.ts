/** Every provider that calls somebody. Each brings a client of its own, so only what is asked for is loaded. */
import type { Clock, Hub, Provider } from '../../ports.ts'
import { discreet } from './discreet.ts'
import type { Egress } from './egress.ts'

export interface ProviderSurroundings {
  /** The wall clock: providers read what is dated by it. */
  readonly clock: Pick<Clock, 'now'>
  /** Whether an address that came with a request may lead into a private network. */
  readonly allowPrivate: boolean
  /** From a call to its result, ms: the longest that a pool of it allows. */
  readonly deadlineMs: number
  /** Who is connected. */
  readonly hub: Hub
  /** How calls over HTTP leave this machine. */
  readonly egress?: Egress | undefined
}

const loaders = {
  async apns({ clock, deadlineMs, egress }) {
    const { createApnsProvider } = await import('./apns.ts')
    return createApnsProvider({ clock, deadlineMs, egress })
  },
  async fcm({ clock, deadlineMs, egress }) {
    const { createFcmProvider } = await import('./fcm.ts')
    return createFcmProvider({ clock, deadlineMs, egress })
  },
  async sendgrid({ clock, deadlineMs, egress }) {
    const { createSendgridProvider } = await import('./sendgrid.ts')
    return createSendgridProvider({ clock, deadlineMs, egress })
  },
  async smtp({ clock, deadlineMs }) {
    const { createSmtpProvider } = await import('./smtp.ts')
    return createSmtpProvider({ clock, deadlineMs })
  },
  async ses(surroundings) {
    const { createSesProvider } = await import('./ses.ts')
    return createSesProvider(surroundings)
  },
  async slack({ deadlineMs, egress }) {
    const { createSlackProvider } = await import('./slack.ts')
    return createSlackProvider({ deadlineMs, egress })
  },
  async telegram({ clock, deadlineMs, egress }) {
    const { createTelegramProvider } = await import('./telegram.ts')
    return createTelegramProvider({ clock, deadlineMs, egress })
  },
  async twilio({ clock, deadlineMs, egress }) {
    const { createTwilioProvider } = await import('./twilio.ts')
    return createTwilioProvider({ clock, deadlineMs, egress })
  },
  async webpush(surroundings) {
    const { createWebPushProvider } = await import('./web-push.ts')
    return createWebPushProvider(surroundings)
  },
  async webhook(surroundings) {
    const { createWebhookProvider } = await import('./webhook.ts')
    return createWebhookProvider(surroundings)
  },
  async websocket(surroundings) {
    const { createWebSocketProvider } = await import('./websocket.ts')
    return createWebSocketProvider(surroundings)
  },
} as const satisfies Readonly<Record<string, (surroundings: ProviderSurroundings) => Promise<Provider>>>

export type LoadedProvider = keyof typeof loaders

export async function loadProvider(
  name: LoadedProvider,
  surroundings: ProviderSurroundings,
): Promise<Provider> {
  return discreet(await loaders[name](surroundings))
}
