/**
 * Wraps a provider so that its details contain no secret of its accounts. A server's refusal goes into timelines,
 * events and dead letters, and servers repeat the request: "Cannot POST /services/T01/B02/key".
 */
import type { JsonValue } from '../../model.ts'
import type { Account, Provider } from '../../ports.ts'

const masked = '(secret)'
/** Shortest secret that is masked, characters: a shorter one cannot be told from ordinary words. */
const passwordMin = 4
const pathMin = 6
const valueMin = 8

export function redact(provider: Provider): Provider {
  const known = new WeakMap<Account, readonly string[]>()
  const secretsOf = (account: Account): readonly string[] => {
    const found = known.get(account) ?? findSecrets(account)
    known.set(account, found)
    return found
  }
  return {
    ...provider,
    async send(message, account, signal, onWritten) {
      const result = await provider.send(message, account, signal, onWritten)
      if (result.detail === undefined) return result
      const detail = withoutSecrets(result.detail, secretsOf(account))
      return detail === result.detail ? result : { ...result, detail }
    },
  }
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets.reduce((left, secret) => left.replaceAll(secret, masked), text)
}

/** The longest secret first, because one may be within another. */
function findSecrets({ url, secret, options }: Account): readonly string[] {
  const words = [secret, secret?.replace(/^whsec_/, ''), ...secretOptions(options)]
  const found = words.filter((word): word is string => word !== undefined && word.length >= passwordMin)
  const {
    username = '',
    password = '',
    pathname = '',
    search = '',
    searchParams,
  } = URL.parse(url ?? '') ?? {}
  const [user, word] = [plain(username), plain(password)]
  if (word.length >= passwordMin)
    found.push(password, word, base64(word), base64(`\0${user}\0${word}`), base64(`${user}:${word}`))
  for (const place of [pathname + search, pathname, search]) if (place.length >= pathMin) found.push(place)
  for (const value of searchParams?.values() ?? []) if (value.length >= valueMin) found.push(value)
  return [...new Set(found)].sort((a, b) => b.length - a.length)
}

/** Names of options that hold secrets; other options, such as the sender, may well be repeated. */
function secretOptions(options: JsonValue | undefined): readonly string[] {
  if (typeof options !== 'object' || options === null) return []
  return Object.entries(options).flatMap(([name, value]) => {
    if (typeof value !== 'string') return secretOptions(value)
    return /key|token|secret|password/i.test(name) ? [value] : []
  })
}

function plain(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const base64 = (text: string): string => Buffer.from(text).toString('base64')
