/**
 * Reads `network`: private addresses in requests, the proxy for providers over HTTP, and certificate
 * authorities beside those of the machine.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type Static, Type } from '@sinclair/typebox'
import type { NetworkConfig, ProxyConfig } from './config.ts'
import { flag, text } from './schema-terms.ts'
import { reasonOf, type Source } from './source.ts'

export const networkSchema = Type.Object(
  {
    allowPrivate: Type.Optional(flag('Whether addresses in requests may be private ones. Default false.')),
    proxy: Type.Optional(
      text('an http or https URL', {
        secret: true,
        description:
          'Providers over HTTP are called through it. Default: none, or with NODE_USE_ENV_PROXY=1 HTTPS_PROXY and HTTP_PROXY.',
      }),
    ),
    proxyFile: Type.Optional(text('the path of a file that holds the URL')),
    noProxy: Type.Optional(
      Type.Array(text('a host such as push.example.com, or .example.com for all below it'), {
        maxItems: 1_000,
        expects: 'a list of hosts',
        description: 'Called without the proxy. Default: localhost, 127.0.0.1, ::1.',
      }),
    ),
    ca: Type.Optional(
      text('the path of a file with certificates in PEM', {
        description: 'Authorities that are trusted by calls over HTTPS, besides those of the machine.',
      }),
    ),
  },
  { additionalProperties: false },
)

const usualNoProxy = ['localhost', '127.0.0.1', '::1']

export function readNetwork(
  written: Static<typeof networkSchema> | undefined,
  source: Source,
  env: Readonly<Record<string, string | undefined>>,
): NetworkConfig {
  const network = source.sound(['network'], written)
  const ca = readAuthorities(network.ca, source)
  const proxy = readProxy(network, source) ?? proxyOf(env)
  return {
    allowPrivate: network.allowPrivate ?? false,
    ...(proxy === undefined ? {} : { proxy }),
    ...(ca === undefined ? {} : { ca }),
  }
}

function readProxy(network: Static<typeof networkSchema>, source: Source): ProxyConfig | undefined {
  const path = ['network', 'proxy']
  const url = source.secret(path, network.proxy, network.proxyFile)
  if (url === undefined) {
    if (network.noProxy !== undefined && source.isClean(path) && source.isClean(['network', 'proxyFile']))
      source.fault(['network', 'noProxy'], 'stands without proxy')
    return undefined
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    source.fault(path, 'expected an http or https URL')
    return undefined
  }
  return { http: url, https: url, bypass: network.noProxy ?? usualNoProxy, isWritten: true }
}

/** Reads the proxy from the same variables as Node.js: https://nodejs.org/api/cli.html#node_use_env_proxy1 */
function proxyOf(env: Readonly<Record<string, string | undefined>>): ProxyConfig | undefined {
  if (env.NODE_USE_ENV_PROXY !== '1') return undefined
  const http = env.http_proxy ?? env.HTTP_PROXY
  const https = env.https_proxy ?? env.HTTPS_PROXY
  if (!http && !https) return undefined
  const bypass = (env.no_proxy ?? env.NO_PROXY ?? '').split(/[\s,]+/).filter((host) => host !== '')
  return { ...(http ? { http } : {}), ...(https ? { https } : {}), bypass, isWritten: false }
}

function readAuthorities(file: string | undefined, source: Source): NetworkConfig['ca'] {
  if (file === undefined) return undefined
  const at = ['network', 'ca']
  const path = source.resolve(at, file)
  try {
    const pem = readFileSync(path, 'utf8').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g)
    if (pem === null) return void source.fault(at, 'names a file without a certificate in PEM')
    for (const each of pem) new X509Certificate(each)
    return { file: path, pem }
  } catch (error) {
    return void source.fault(at, `names a file that cannot be read (${reasonOf(error)})`)
  }
}
