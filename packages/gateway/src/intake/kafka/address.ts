/** The address of a cluster as the client takes it: brokers, TLS and the user. */
import { isIP } from 'node:net'
import type { BaseOptions } from '@platformatic/kafka'

export interface KafkaAddress {
  /** Host and port of some brokers; the others are learned from them. */
  readonly brokers: readonly string[]
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined
  readonly sasl?:
    | {
        readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'
        readonly user: string
        readonly password: string
      }
    | undefined
}

export function securityOf({
  brokers,
  tls,
  sasl,
}: KafkaAddress): Pick<BaseOptions, 'bootstrapBrokers' | 'tls' | 'tlsServerName' | 'sasl'> {
  return {
    bootstrapBrokers: [...brokers],
    ...(tls === undefined ? {} : { tls: { ...tls }, tlsServerName: brokers.every(hasName) }),
    ...(sasl === undefined
      ? {}
      : { sasl: { mechanism: sasl.mechanism, username: sasl.user, password: sasl.password } }),
  }
}

/** A certificate names the host of its broker; an IP address is no name to ask for one (RFC 6066, section 3). */
const hasName = (broker: string): boolean =>
  isIP(broker.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')) === 0
