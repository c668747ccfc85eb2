/**
 * Emulates Firebase Cloud Messaging: `POST /v1/projects/<project>/messages:send` under an access token, and `POST
 * /token`, where Google exchanges a signed assertion for one. The project names the account. The assertion's
 * signature is checked where the key is the sandbox's own (example-keys.ts).
 */
import { fcmExample } from '../../sandbox/example-keys.ts'
import { readJwt } from '../emulated-jwt.ts'
import {
  bearerOf,
  type Emulator,
  type EmulatorAnswer,
  json,
  jsonBody,
  retryAfterHeader,
  type SandboxRequest,
} from '../emulator.ts'

interface Send {
  readonly message: {
    readonly token?: string
    readonly notification?: object
    readonly data?: { readonly notificationId?: string }
  }
}

const fcmError = 'type.googleapis.com/google.firebase.fcm.v1.FcmError'
const tokenSeconds = 3_599

function refusal(
  code: number,
  status: string,
  errorCode?: string,
  headers: Readonly<Record<string, string>> = {},
): EmulatorAnswer {
  const details = errorCode === undefined ? [] : [{ '@type': fcmError, errorCode }]
  return json(code, { error: { code, message: `sandbox: ${errorCode ?? status}`, status, details } }, headers)
}

export const fcm: Emulator = {
  name: 'fcm',
  read(request) {
    if (request.path === '/token') return give(request)
    const project = /^\/v1\/projects\/([^/]+)\/messages:send$/.exec(request.path)?.[1]
    if (project === undefined) return undefined
    const token = readToken(bearerOf(request) ?? '')
    if (token === undefined || token.until <= request.now) return refusal(401, 'UNAUTHENTICATED')
    if (token.project !== project) return refusal(403, 'PERMISSION_DENIED')
    const message = jsonBody<Send>(request)?.message
    const texts = Object.values(message?.data ?? {}).every((value) => typeof value === 'string')
    if (!message?.token || !texts) return refusal(400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT')
    return {
      isSend: true,
      account: project,
      message: {
        id: message.data?.notificationId ?? '',
        tenant: '',
        channel: 'push',
        to: { id: message.token, pushToken: message.token },
      },
    }
  },
  tell({ fate, send, retryAfter, number }) {
    switch (fate) {
      case 'deliver':
        return json(200, { name: `projects/${send.account}/messages/${number}` })
      case 'rate_limit':
        return refusal(429, 'RESOURCE_EXHAUSTED', 'QUOTA_EXCEEDED', retryAfterHeader(retryAfter))
      case 'fail':
        return refusal(500, 'INTERNAL', 'INTERNAL')
      case 'reject':
        return refusal(400, 'INVALID_ARGUMENT', 'INVALID_ARGUMENT')
      case 'reject_address':
        return refusal(404, 'NOT_FOUND', 'UNREGISTERED')
      case 'suspend':
        return refusal(403, 'PERMISSION_DENIED')
    }
  },
}

/** The token carries its own claims, so the emulator stores nothing and a restart invalidates none. */
const tokenFor = (project: string, until: number): string =>
  `sandbox.${Buffer.from(JSON.stringify({ project, until })).toString('base64url')}`

function readToken(token: string): { readonly project: string; readonly until: number } | undefined {
  try {
    return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
  } catch {
    return undefined
  }
}

function give({ body, origin, path, now }: SandboxRequest): EmulatorAnswer {
  const form = new URLSearchParams(body.toString())
  const refuse = (description: string): EmulatorAnswer =>
    json(400, { error: 'invalid_grant', error_description: description })
  if (form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer')
    return json(400, { error: 'unsupported_grant_type' })
  const jwt = readJwt(form.get('assertion') ?? '')
  const { iss, aud, scope, iat, exp } = jwt?.claims ?? {}
  const project = /@([^.]+)\.iam\.gserviceaccount\.com$/.exec(String(iss))?.[1]
  if (jwt?.header.alg !== 'RS256' || project === undefined) return refuse('Invalid JWT')
  if (jwt.header.kid === fcmExample.keyId && !jwt.isSignedBy(fcmExample.publicKey))
    return refuse('Invalid JWT Signature.')
  if (aud !== origin + path || !String(scope).includes('firebase.messaging'))
    return refuse('Invalid audience or scope')
  const [from, until] = [Number(iat) * 1_000, Number(exp) * 1_000]
  if (!(from <= now + 60_000 && until > now && until - from <= 3_600_000)) return refuse('Invalid JWT: time')
  return json(200, {
    access_token: tokenFor(project, now + tokenSeconds * 1_000),
    expires_in: tokenSeconds,
    token_type: 'Bearer',
  })
}
