/**
 * Environment variables that override the file. The text of a variable is put where its field stands, and is
 * then checked with all others. An empty variable counts as not set, as container files write it.
 */
import { jwtKeyFields } from './auth-schema.ts'
import { didYouMean, suggest } from './suggestion.ts'
import type { Path } from './yaml-file.ts'

export type Environment = Readonly<Record<string, string | undefined>>

interface Variable {
  readonly path: Path
  /**
   * The value that is put into the document; the text itself where it has none of the known forms, so that the
   * check refuses it.
   */
  readonly read: (text: string) => unknown
}

const asText = (text: string): string => text
const asCount = (text: string): unknown => (/^\d{1,15}$/.test(text) ? Number(text) : text)
const asList = (text: string): unknown => text.split(/[\s,]+/).filter((word) => word !== '')
const perMinute = (text: string): unknown => (/^\d{1,15}$/.test(text) ? `${text}/min` : text)
const perSecond = (text: string): unknown => (/^\d{1,15}$/.test(text) ? `${text}/s` : text)

const variables = {
  SLUICE_HTTP_HOST: { path: ['http', 'host'], read: asText },
  SLUICE_HTTP_PORT: { path: ['http', 'port'], read: asCount },
  SLUICE_HTTP_PUBLIC_URL: { path: ['http', 'publicUrl'], read: asText },
  SLUICE_JWT_SECRET: { path: ['auth', 'jwt', 'secret'], read: asText },
  SLUICE_JWT_SECRET_FILE: { path: ['auth', 'jwt', 'secretFile'], read: asText },
  SLUICE_JWT_PUBLIC_KEY_FILE: { path: ['auth', 'jwt', 'publicKeyFile'], read: asText },
  SLUICE_JWT_JWKS: { path: ['auth', 'jwt', 'jwks'], read: asText },
  SLUICE_JWT_ISSUER: { path: ['auth', 'jwt', 'issuer'], read: asText },
  SLUICE_JWT_AUDIENCE: { path: ['auth', 'jwt', 'audience'], read: asText },
  SLUICE_JWT_ALGORITHMS: { path: ['auth', 'jwt', 'algorithms'], read: asList },
  SLUICE_STORE: { path: ['store'], read: asText },
  SLUICE_STORE_FILE: { path: ['storeFile'], read: asText },
  SLUICE_STATE: { path: ['state'], read: asText },
  SLUICE_STATE_FILE: { path: ['stateFile'], read: asText },
  SLUICE_QUEUE: { path: ['queue'], read: asText },
  SLUICE_QUEUE_FILE: { path: ['queueFile'], read: asText },
  SLUICE_DELIVERY_LOG: { path: ['deliveryLog'], read: asText },
  SLUICE_DELIVERY_LOG_FILE: { path: ['deliveryLogFile'], read: asText },
  SLUICE_POLICY: { path: ['policy'], read: asText },
  SLUICE_TEMPLATES: { path: ['templates'], read: asText },
  SLUICE_LOG_LEVEL: { path: ['log', 'level'], read: asText },
  SLUICE_LOG_FORMAT: { path: ['log', 'format'], read: asText },
  SLUICE_UNSUBSCRIBE_SECRET: { path: ['unsubscribe', 'secret'], read: asText },
  SLUICE_UNSUBSCRIBE_SECRET_FILE: { path: ['unsubscribe', 'secretFile'], read: asText },
  NOTIFY_RATE_LIMIT_PER_TENANT: { path: ['tenants', 'default', 'rate'], read: perMinute },
  NOTIFY_RATE_LIMIT_PER_MODULE: { path: ['tenants', 'default', 'modules'], read: perMinute },
  NOTIFY_WS_RATE_PER_TENANT: { path: ['tenants', 'default', 'websocket', 'rate'], read: perSecond },
  NOTIFY_WS_MAX_CONNECTIONS_PER_TENANT: {
    path: ['tenants', 'default', 'websocket', 'connections'],
    read: asCount,
  },
  NOTIFY_RABBITMQ_MAX_QUEUE_LENGTH: { path: ['tenants', 'default', 'queue'], read: asCount },
} as const satisfies Record<string, Variable>

/**
 * Fields of which one is expected at most. A variable that sets one replaces whichever of them the file has, or the file
 * and the variable would be refused together.
 */
const alternatives: readonly (readonly Path[])[] = [
  jwtKeyFields.map((field) => ['auth', 'jwt', field]),
  [['store'], ['storeFile']],
  [['state'], ['stateFile']],
  [['queue'], ['queueFile']],
  [['deliveryLog'], ['deliveryLogFile']],
  [
    ['unsubscribe', 'secret'],
    ['unsubscribe', 'secretFile'],
  ],
]

/** Variables that the command line and the tests read themselves. */
const otherVariables = ['SLUICE_CONFIG', 'SLUICE_URL', 'SLUICE_TOKEN', 'SLUICE_TOKEN_FILE', 'SLUICE_SEED']

export const notCarriedYet = 'is not carried by this version yet'

export interface Override {
  readonly variable: string
  readonly path: Path
  readonly value: unknown
  /** The fields that leave the document of the file before the value is put in. */
  readonly replaces: readonly Path[]
}

export interface Overrides {
  readonly overrides: readonly Override[]
  readonly faults: readonly { readonly variable: string; readonly message: string }[]
}

export function readEnvironment(env: Environment): Overrides {
  const overrides: Override[] = []
  const faults: { variable: string; message: string }[] = []
  const known = [...Object.keys(variables), ...otherVariables]
  for (const [name, text] of Object.entries(env)) {
    if (text === undefined || text === '' || !/^(SLUICE|NOTIFY)_/.test(name)) continue
    if (Object.hasOwn(variables, name)) {
      const { path, read }: Variable = variables[name as keyof typeof variables]
      overrides.push({ variable: name, path, value: read(text.trim()), replaces: replacedBy(path) })
    } else if (!known.includes(name) && isMisspelt(name, known)) {
      faults.push({ variable: name, message: `is not known${didYouMean(name, known)}` })
    }
  }
  return { overrides, faults }
}

function replacedBy(path: Path): readonly Path[] {
  const isPath = (other: Path): boolean => other.join('.') === path.join('.')
  return alternatives.find((fields) => fields.some(isPath)) ?? [path]
}

/**
 * At most two letters differ from a known name. Others pass: Kubernetes sets SLUICE_SERVICE_HOST, SLUICE_PORT
 * and more by itself.
 */
function isMisspelt(name: string, known: readonly string[]): boolean {
  return suggest(name, known, 2) !== undefined
}
