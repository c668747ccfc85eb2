/**
 * Reads a `postgres://` address: the server, the database, TLS, and the schema that holds the tables. The driver's own
 * reading of `sslmode` differs between its versions; here it means what it means for PostgreSQL's own programs.
 */
import type { PostgresConfig } from './config.ts'
import { loginHint, readLogin } from './login.ts'

const sslModes = ['disable', 'require', 'verify-ca', 'verify-full'] as const
type SslMode = (typeof sslModes)[number]
const expected = 'postgres://user:password@host:5432/database'
const known = new Set(['sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'schema'])

/**
 * @param readText reads a file of a certificate or key
 * @throws Error with a sentence that says what is expected
 */
export function readPostgresAddress(text: string, readText: (path: string) => string): PostgresConfig {
  if (/^\w+:\/\/(?:[^@/?#]*@)?[^@/?#]*,[^@/?#]*(?:[/?#]|$)/.test(text))
    throw new Error('expected one host: that of the primary, or a name or a proxy that leads to it')
  if (!URL.canParse(text)) throw new Error(`expected ${expected}${loginHint(text)}`)
  const url = new URL(text)
  const unknown = [...url.searchParams.keys()].find((name) => !known.has(name))
  if (unknown !== undefined) throw new Error(`"${unknown}" is not known; expected ${[...known].join(', ')}`)
  const database = decodeURIComponent(url.pathname.slice(1))
  if (url.hostname === '' || database === '' || database.includes('/') || url.hash !== '')
    throw new Error(`expected a host and a database, as in ${expected}${loginHint(text)}`)
  const schema = url.searchParams.get('schema') ?? 'sluice'
  if (!/^[a-z_][a-z0-9_]{0,62}$/.test(schema))
    throw new Error('expected a schema of at most 63 small letters, digits and underscores')
  const [user = 'postgres', password] = readLogin(`${url.username}:${url.password}`)
  const port = url.port === '' ? 5_432 : Number(url.port)
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  return {
    host,
    port,
    user,
    database,
    schema,
    ssl: tlsOf(url.searchParams, readText),
    shown: shownOf(url),
    ...(password === undefined ? {} : { password }),
  }
}

function tlsOf(options: URLSearchParams, readText: (path: string) => string): PostgresConfig['ssl'] {
  const mode = options.get('sslmode') ?? 'disable'
  if (!isSslMode(mode)) throw new Error(`expected sslmode=${sslModes.join(', ')}, not "${mode}"`)
  if (mode === 'disable') return false
  const file = (name: 'ca' | 'cert' | 'key', option: string) => {
    const path = options.get(option)
    return path === null ? {} : { [name]: readText(path) }
  }
  return {
    ...file('ca', 'sslrootcert'),
    ...file('cert', 'sslcert'),
    ...file('key', 'sslkey'),
    rejectUnauthorized: mode !== 'require',
    ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  }
}

/** The address as it may be shown: without the password. */
function shownOf(url: URL): string {
  const shown = new URL(url)
  shown.password = ''
  return shown.href
}

const isSslMode = (mode: string): mode is SslMode => (sslModes as readonly string[]).includes(mode)
