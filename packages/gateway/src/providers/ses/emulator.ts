/**
 * Emulates Amazon SES's `POST /v2/email/outbound-emails`; the access key names the account. The emulator knows one
 * secret, the one that AWS publishes for its examples (AKIDEXAMPLE): signatures under it are computed again and have
 * to match. Source:
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
import { createHash, createHmac } from 'node:crypto'
import { type Emulator, type EmulatorAnswer, json, jsonBody, type SandboxRequest } from '../emulator.ts'

interface Mail {
  readonly Destination: { readonly ToAddresses: readonly string[] }
  readonly Content: { readonly Raw?: { readonly Data: string } }
  readonly EmailTags?: readonly { readonly Name: string; readonly Value: string }[]
}

const exampleKey = 'AKIDEXAMPLE'
const exampleSecret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const authorization =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/ses\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/

const refusal = (status: number, kind: string, message: string): EmulatorAnswer =>
  json(status, { message }, { 'x-amzn-errortype': kind })

export const ses: Emulator = {
  name: 'ses',
  read(request) {
    if (request.path !== '/v2/email/outbound-emails') return undefined
    const signature = authorization.exec(request.headers.authorization ?? '')
    if (signature === null)
      return refusal(403, 'MissingAuthenticationTokenException', 'Missing Authentication Token')
    const [, account = ''] = signature
    if (account === exampleKey && signatureOf(request, signature) !== signature[5])
      return refusal(403, 'SignatureDoesNotMatch', 'The request signature does not match')
    const mail = jsonBody<Mail>(request)
    const [to] = mail?.Destination?.ToAddresses ?? []
    if (to === undefined || mail?.Content?.Raw === undefined)
      return refusal(400, 'BadRequestException', 'Destination and Content are required')
    return {
      isSend: true,
      account,
      message: {
        id: mail.EmailTags?.find(({ Name }) => Name === 'notification-id')?.Value ?? '',
        tenant: '',
        channel: 'email',
        to: { id: to, email: to },
      },
    }
  },
  tell({ fate, number }) {
    switch (fate) {
      case 'deliver':
        return json(200, { MessageId: `sandbox-${number}` })
      case 'rate_limit':
        // SES sends no Retry-After.
        return refusal(429, 'TooManyRequestsException', 'Maximum sending rate exceeded.')
      case 'fail':
        return refusal(503, 'ServiceUnavailable', 'Service unavailable')
      case 'reject':
        return refusal(400, 'MessageRejected', 'The message contains a virus.')
      case 'reject_address':
        return refusal(400, 'BadRequestException', 'Illegal address')
      case 'suspend':
        return refusal(400, 'AccountSuspendedException', 'The account is suspended.')
    }
  },
}

/** Computes the signature that the request should carry, by the steps of AWS's page. */
function signatureOf(request: SandboxRequest, [, , day, region, names]: RegExpExecArray): string {
  const { method, path, headers, body } = request
  const hash = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex')
  const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
  const signedHeaders = (names ?? '').split(';')
  const canonical = [
    method,
    path,
    '',
    ...signedHeaders.map((name) => `${name}:${String(headers[name] ?? '').trim()}`),
    '',
    names,
    String(headers['x-amz-content-sha256'] ?? hash(body)),
  ].join('\n')
  const scope = `${day}/${region}/ses/aws4_request`
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, hash(canonical)].join('\n')
  const key = [day!, region!, 'ses', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${exampleSecret}`)
  return createHmac('sha256', key).update(text).digest('hex')
}
