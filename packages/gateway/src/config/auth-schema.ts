/** The schema of `auth`: the trusted issuers, the keys that verify tokens, and the names of their claims. */
import { type Static, Type } from '@sinclair/typebox'
import { text } from './schema-terms.ts'

const closed = { additionalProperties: false } as const

/** The algorithms with which tokens may be signed. `none` and all others are refused. */
const jwtAlgorithms = ['HS256', 'RS256', 'ES256', 'EdDSA'] as const
export type JwtAlgorithm = (typeof jwtAlgorithms)[number]

/** The least bytes of a secret for HS256 (RFC 7518, section 3.2). */
export const jwtSecretBytesMin = 32

/** The fields that name the keys of tokens; one of them is expected. */
export const jwtKeyFields = ['secret', 'secretFile', 'publicKeyFile', 'jwks'] as const

const jwtSchema = Type.Object(
  {
    secret: Type.Optional(
      text(`a secret of at least ${jwtSecretBytesMin} bytes`, {
        secret: true,
        description: 'Shared with who issues the tokens; for HS256.',
      }),
    ),
    secretFile: Type.Optional(text('the path of a file that holds the secret, or several, one a line')),
    publicKeyFile: Type.Optional(
      text('the path of a file with public keys or certificates in PEM', {
        description: 'For RS256, ES256 and EdDSA; several while keys change.',
      }),
    ),
    jwks: Type.Optional(
      text('an https URL such as https://issuer.example/.well-known/jwks.json', {
        description: 'Where the issuer publishes its keys; for RS256, ES256 and EdDSA.',
      }),
    ),
    issuer: Type.Optional(
      text('what the claim iss of every token says, such as https://issuer.example', {
        description: 'What `iss` must be.',
      }),
    ),
    audience: Type.Optional(
      text('what the claim aud of every token names, such as sluice', {
        description: 'What `aud` must name.',
      }),
    ),
    algorithms: Type.Optional(
      Type.Array(
        Type.Union(
          jwtAlgorithms.map((name) => Type.Literal(name)),
          { expects: `one of ${jwtAlgorithms.join(', ')}` },
        ),
        {
          minItems: 1,
          expects: `a list of ${jwtAlgorithms.join(', ')}`,
          description: 'What tokens may be signed with. Default: what the keys are for.',
        },
      ),
    ),
  },
  { ...closed, description: 'Tokens: exactly one of secret, publicKeyFile and jwks.' },
)

const claimName = (description: string) =>
  Type.Optional(text('the name of a claim, such as tenant.id', { description, maxLength: 128 }))

export const authSchema = Type.Object(
  {
    jwt: Type.Optional(jwtSchema),
    claims: Type.Optional(
      Type.Object(
        {
          tenant: claimName('The tenant. Default tenant.id.'),
          module: claimName('The module. Default module.id.'),
          scope: claimName('The scopes. Default scope.'),
        },
        { ...closed, description: 'Names of claims; `a.b` is also the `b` inside of `a`.' },
      ),
    ),
  },
  {
    ...closed,
    description: 'Who may ask. Without keys: everybody on this machine, and nobody else.',
  },
)

export type AuthDocument = Static<typeof authSchema>
