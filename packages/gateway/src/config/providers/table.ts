/** Every provider that a pool may name. A new one is a file beside this, a line here, and its adapter. */
import { apns } from './apns.ts'
import { fcm } from './fcm.ts'
import type { ProviderDefinition } from './provider.ts'
import { sandbox } from './sandbox.ts'
import { sendgrid } from './sendgrid.ts'
import { ses } from './ses.ts'
import { slack } from './slack.ts'
import { smtp } from './smtp.ts'
import { telegram } from './telegram.ts'
import { twilio } from './twilio.ts'
import { webhook } from './webhook.ts'
import { webpush } from './webpush.ts'
import { websocket } from './websocket.ts'

export const providers = {
  smtp,
  sendgrid,
  ses,
  twilio,
  apns,
  fcm,
  webpush,
  telegram,
  slack,
  webhook,
  websocket,
  sandbox,
} as const satisfies Record<string, ProviderDefinition>

export type ProviderName = keyof typeof providers

export const providerNames = Object.keys(providers) as readonly ProviderName[]
