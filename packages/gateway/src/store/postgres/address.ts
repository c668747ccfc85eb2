/** The address of a PostgreSQL server, as the configuration reads it. */
import type { ConnectionOptions } from 'node:tls'

export interface PostgresAddress {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password?: string
  readonly database: string
  /** The schema of the tables. @defaultValue sluice */
  readonly schema: string
  /** False: no TLS. */
  readonly ssl: false | ConnectionOptions
  /** The address without the password, for messages. */
  readonly shown: string
}
