/** Reads `alerts`: the operator's webhook for failing accounts, and the secret that signs its requests. */
import { type Static, Type } from '@sinclair/typebox'
import { webhookSecret } from '../providers/webhook/config.ts'
import type { AlertsConfig } from './config.ts'
import { text } from './schema-terms.ts'
import type { Source } from './source.ts'

export const alertsSchema = Type.Object(
  {
    url: Type.Optional(text('an http or https URL', { description: 'Is told by a POST.', secret: true })),
    urlFile: Type.Optional(text('the path of a file that holds the URL')),
    secret: Type.Optional(
      text('whsec_ and a key in base64', {
        pattern: webhookSecret,
        description: 'Signs what it is told (Standard Webhooks).',
        secret: true,
      }),
    ),
    secretFile: Type.Optional(text('the path of a file that holds the secret')),
  },
  { additionalProperties: false, description: 'Who is told of accounts that fail.' },
)

export function readAlerts(
  written: Static<typeof alertsSchema> | undefined,
  source: Source,
): AlertsConfig | undefined {
  if (written === undefined) return undefined
  const alerts = source.sound(['alerts'], written)
  const url = source.secret(['alerts', 'url'], alerts.url, alerts.urlFile)
  const secret = source.secret(['alerts', 'secret'], alerts.secret, alerts.secretFile)
  if (secret !== undefined && !new RegExp(webhookSecret).test(secret)) {
    source.fault(['alerts', 'secretFile'], 'names a file that holds no whsec_ and key in base64')
  }
  if (!source.isClean(['alerts', 'url']) || !source.isClean(['alerts', 'urlFile'])) return undefined
  if (url === undefined || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    const what = url === undefined ? 'is missing; expected' : 'expected'
    source.fault(['alerts', 'url'], `${what} an http or https URL`)
    return undefined
  }
  return { url, secret }
}
