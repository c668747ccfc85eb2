/**
 * Outgoing HTTP connections: direct or through a proxy (in the words of Node's own agents), and the certificate
 * authorities that they trust. HTTP/2 needs a tunnel of its own, because Node's client for it supports no proxies.
 */
import type { RequestOptions } from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import { type ConnectionOptions, connect as connectTls, getCACertificates } from 'node:tls'
import { http } from '../../node-http.ts'

export interface Egress {
  /** Proxies for http and https addresses, and the hosts that are called directly. */
  readonly proxy?: { readonly http?: string; readonly https?: string; readonly bypass: readonly string[] }
  /** Certificates in PEM that are trusted besides the machine's. */
  readonly authorities?: readonly string[]
}

/** The options for Node's agents. */
export function proxyEnvOf({ proxy }: Egress): Readonly<Record<string, string>> | undefined {
  if (proxy === undefined) return undefined
  return {
    ...(proxy.http === undefined ? {} : { HTTP_PROXY: proxy.http }),
    ...(proxy.https === undefined ? {} : { HTTPS_PROXY: proxy.https }),
    ...(proxy.bypass.length === 0 ? {} : { NO_PROXY: proxy.bypass.join(',') }),
  }
}

/** The machine's authorities and the configured ones: naming any in `ca` would replace all. */
export function trustOf({ authorities }: Egress): { readonly ca?: string[] } {
  return authorities === undefined ? {} : { ca: [...getCACertificates('default'), ...authorities] }
}

/** Finds the proxy for an address; `undefined` where it is called directly. */
export function proxyFor({ proxy }: Egress, { protocol, hostname }: URL): URL | undefined {
  const url = protocol === 'http:' ? proxy?.http : proxy?.https
  if (proxy === undefined || url === undefined || proxy.bypass.some((name) => covers(name, hostname)))
    return undefined
  return new URL(url)
}

/** Matches a host: `example.com`, `.example.com` and `*.example.com` for all below it, `*` for all. */
function covers(name: string, hostname: string): boolean {
  if (name === '*') return true
  const suffix = name.replace(/^\*(?=\.)/, '')
  return suffix.startsWith('.') ? hostname.endsWith(suffix) : hostname.replace(/^\[|\]$/g, '') === name
}

/**
 * Opens a connection through a proxy for HTTP/2, with TLS inside where the address is https. Rejects where the proxy
 * gives none.
 */
export async function openTunnel(
  proxy: URL,
  to: URL,
  tls: ConnectionOptions,
  signal: AbortSignal,
): Promise<Socket> {
  const port = to.port || (to.protocol === 'https:' ? '443' : '80')
  const socket = await askForTunnel(proxy, `${to.hostname}:${port}`, tls, signal)
  if (to.protocol !== 'https:') return socket
  const servername = /^[\d.:[\]]+$/.test(to.hostname) ? {} : { servername: to.hostname }
  return connectTls({ ...tls, ...servername, host: to.hostname, socket, ALPNProtocols: ['h2'] })
}

function askForTunnel(
  proxy: URL,
  path: string,
  tls: ConnectionOptions,
  signal: AbortSignal,
): Promise<Socket> {
  const { username, password } = proxy
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  const options: RequestOptions = {
    method: 'CONNECT',
    path,
    agent: false,
    signal,
    headers: {
      host: path,
      ...(username === '' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(login).toString('base64')}` }),
    },
  }
  const address = new URL(proxy)
  address.username = ''
  address.password = ''
  return new Promise((resolve, reject) => {
    const request =
      address.protocol === 'https:'
        ? https.request(address, { ...options, ...(tls.ca === undefined ? {} : { ca: tls.ca }) })
        : http.request(address, options)
    request.on('connect', ({ statusCode }, socket, head) => {
      // Without TLS the server may send first.
      if (head.length > 0) socket.unshift(head)
      if (statusCode === 200) return resolve(socket)
      socket.destroy()
      reject(new Error(`the proxy answered ${statusCode}`))
    })
    request.on('response', ({ statusCode }) => {
      request.destroy()
      reject(new Error(`the proxy answered ${statusCode}`))
    })
    request.on('error', reject)
    request.end()
  })
}
