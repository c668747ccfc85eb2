/**
 * The configuration of every provider that a pool may name. A new provider adds its folder and a line here and in
 * adapters.ts.
 */
import { apns } from './apns/config.ts'
import { fcm } from './fcm/config.ts'
import type { ProviderDefinition } from './provider-config.ts'
import { sandbox } from './sandbox/config.ts'
import { sendgrid } from './sendgrid/config.ts'
import { ses } from './ses/config.ts'
import { slack } from './slack/config.ts'
import { smtp } from './smtp/config.ts'
import { telegram } from './telegram/config.ts'
import { twilio } from './twilio/config.ts'
import { webhook } from './webhook/config.ts'
import { webpush } from './webpush/config.ts'
import { websocket } from './websocket/config.ts'

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
