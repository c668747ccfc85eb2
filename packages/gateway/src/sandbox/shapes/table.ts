/** Every shape that the server speaks; a request goes to the first that knows it. */
import { apns } from './apns.ts'
import { fcm } from './fcm.ts'
import { sendgrid } from './sendgrid.ts'
import { ses } from './ses.ts'
import type { Shape } from './shape.ts'
import { slack, slackWebhook } from './slack.ts'
import { telegram } from './telegram.ts'
import { twilio } from './twilio.ts'
import { webhook } from './webhook.ts'
import { webpush } from './webpush.ts'

export const shapes: readonly Shape[] = [
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
