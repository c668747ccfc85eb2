/** Every emulator of the sandbox server. A request goes to the first emulator that recognises it. */
import { apns } from './apns/emulator.ts'
import type { Emulator } from './emulator.ts'
import { fcm } from './fcm/emulator.ts'
import { sendgrid } from './sendgrid/emulator.ts'
import { ses } from './ses/emulator.ts'
import { slack, slackWebhook } from './slack/emulator.ts'
import { telegram } from './telegram/emulator.ts'
import { twilio } from './twilio/emulator.ts'
import { webhook } from './webhook/emulator.ts'
import { webpush } from './webpush/emulator.ts'

export const emulators: readonly Emulator[] = [
  apns,
  fcm,
  sendgrid,
  ses,
  twilio,
  telegram,
  slack,
  slackWebhook,
  webpush,
  webhook,
]
