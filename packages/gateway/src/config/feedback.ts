/** Reads `feedback` of an account: the form of its provider's webhooks, and what authenticates them. */
import { createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { type Static, Type } from '@sinclair/typebox'
import type { JsonObject } from '../model.ts'
import { text } from './schema-terms.ts'
import type { Source } from './source.ts'
import type { Path } from './yaml-file.ts'

const file = (what: string) => Type.Optional(text(`the path of a file that holds ${what}`))
const forms = ['ses', 'sendgrid', 'twilio', 'mailgun', 'postmark'] as const
export type FeedbackForm = (typeof forms)[number]

const feedbackTerms = {
  form: Type.Unsafe<FeedbackForm>(
    Type.Union(
      forms.map((form) => Type.Literal(form)),
      { expects: `one of ${forms.join(', ')}`, description: 'Whose webhooks call back.' },
    ),
  ),
  topics: Type.Optional(
    Type.Array(
      text('the ARN of a topic of Amazon SNS', { pattern: '^arn:aws[a-z-]*:sns:[a-z0-9-]+:\\d{12}:.+$' }),
      {
        minItems: 1,
        maxItems: 100,
        expects: 'a list of at least one ARN',
        description: 'ses: the topics whose messages are taken.',
      },
    ),
  ),
  certificateFile: file('a certificate in PEM'),
  publicKey: Type.Optional(text('the public key of the signed event webhook, in base64')),
  publicKeyFile: file('the public key'),
  authToken: Type.Optional(text('the auth token of the account', { secret: true })),
  authTokenFile: file('the auth token'),
  signingKey: Type.Optional(text('the signing key of webhooks', { secret: true })),
  signingKeyFile: file('the signing key'),
  user: Type.Optional(text('the user of the webhook’s address')),
  password: Type.Optional(text('the password of the webhook’s address', { secret: true })),
  passwordFile: file('the password'),
}

const schema = Type.Object(feedbackTerms, { additionalProperties: false })
export type FeedbackDocument = Static<typeof schema>

export const feedbackTerm = Type.Optional(
  Type.Object(feedbackTerms, {
    additionalProperties: false,
    define: 'feedback',
    description: 'What the provider reports of its messages; see the guide to feedback.',
  }),
)

/** The webhooks of one account; the secrets are read. */
export type FeedbackConfig =
  | { readonly form: 'ses'; readonly topics: readonly string[]; readonly certificate?: string }
  | { readonly form: 'sendgrid'; readonly publicKey: KeyObject }
  | { readonly form: 'twilio'; readonly authToken: string }
  | { readonly form: 'mailgun'; readonly signingKey: string }
  | { readonly form: 'postmark'; readonly user: string; readonly password: string }

/** Fields of each form; the first may stand in a file of its own. */
const fieldsOf: Readonly<Record<FeedbackForm, readonly (keyof FeedbackDocument)[]>> = {
  ses: ['topics', 'certificateFile'],
  sendgrid: ['publicKey', 'publicKeyFile'],
  twilio: ['authToken', 'authTokenFile'],
  mailgun: ['signingKey', 'signingKeyFile'],
  postmark: ['user', 'password', 'passwordFile'],
}

export interface FeedbackPlace {
  readonly path: Path
  readonly source: Source
  /** The auth token that the account has anyway; absent where it has none. */
  readonly ownAuthToken?: string | undefined
}

/** Returns nothing where there is a mistake, which is noted. */
export function readFeedback(
  written: FeedbackDocument | undefined,
  { path, source, ownAuthToken }: FeedbackPlace,
): FeedbackConfig | undefined {
  if (written === undefined || !source.isClean([...path, 'form'])) return undefined
  const { form } = written
  const fields = source.sound<FeedbackDocument>(path, written)
  if (form === undefined) return undefined
  const own = fieldsOf[form]
  for (const name of Object.keys(written))
    if (name !== 'form' && !(own as readonly string[]).includes(name))
      source.fault([...path, name], `is no field of the form ${form}; expected ${own.join(', ')}`)
  const missing = (name: string): undefined => source.fault([...path, name], 'is missing')
  const secret = (name: 'publicKey' | 'authToken' | 'signingKey' | 'password'): string | undefined =>
    source.secret([...path, name], fields[name], fields[`${name}File`])
  switch (form) {
    case 'ses': {
      const { topics, certificateFile } = fields
      if (topics === undefined) return written.topics === undefined ? missing('topics') : undefined
      if (certificateFile === undefined) return { form, topics }
      const certificate = source.secret([...path, 'certificate'], undefined, certificateFile)
      if (certificate === undefined) return undefined
      try {
        return { form, topics, certificate: new X509Certificate(certificate).toString() }
      } catch {
        return source.fault([...path, 'certificateFile'], 'names a file without a certificate in PEM')
      }
    }
    case 'sendgrid': {
      const text = secret('publicKey')
      if (text === undefined) return 'publicKeyFile' in written ? undefined : missing('publicKey')
      const publicKey = p256KeyOf(text)
      return publicKey === undefined
        ? source.fault([...path, 'publicKey'], 'expected a public key of P-256, in base64 (SPKI, DER)')
        : { form, publicKey }
    }
    case 'twilio': {
      const authToken = secret('authToken') ?? ownAuthToken
      if (authToken !== undefined) return { form, authToken }
      return 'authTokenFile' in written ? undefined : missing('authToken')
    }
    case 'mailgun': {
      const signingKey = secret('signingKey')
      if (signingKey !== undefined) return { form, signingKey }
      return 'signingKeyFile' in written ? undefined : missing('signingKey')
    }
    case 'postmark': {
      const { user } = fields
      const password = secret('password')
      if (user === undefined) return missing('user')
      if (password !== undefined) return { form, user, password }
      return 'passwordFile' in written ? undefined : missing('password')
    }
  }
}

function p256KeyOf(text: string): KeyObject | undefined {
  try {
    const der = Buffer.from(text.replaceAll(/-----[^-]+-----|\s/g, ''), 'base64')
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : undefined
  } catch {
    return undefined
  }
}

/** Describes what is in force, without secrets. */
export function describeFeedback(feedback: FeedbackConfig, masked: string): JsonObject {
  switch (feedback.form) {
    case 'ses':
      return { form: feedback.form, topics: [...feedback.topics] }
    case 'sendgrid':
      return {
        form: feedback.form,
        publicKey: feedback.publicKey.export({ format: 'der', type: 'spki' }).toString('base64'),
      }
    case 'twilio':
      return { form: feedback.form, authToken: masked }
    case 'mailgun':
      return { form: feedback.form, signingKey: masked }
    case 'postmark':
      return { form: feedback.form, user: feedback.user, password: masked }
  }
}
