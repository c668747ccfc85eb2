/**
 * Parts that are replaced while the gateway runs, when secrets and templates are read again. Each stands where the
 * part stood and passes every call on to the one in force, so that nobody else has to know of the change.
 */
import type { Authenticate } from '../http/identity.ts'
import type { UnsubscribeLinks } from '../http/unsubscribe.ts'
import type { Account, Alerts, Provider, Templates } from '../ports.ts'

interface Live<Part> {
  readonly part: Part
  replace(next: Part): void
}

export function liveTemplates(first: Templates): Live<Templates> {
  let current = first
  return {
    part: {
      has: (name) => current.has(name),
      hasSubject: (name, channel) => current.hasSubject(name, channel),
      render: (name, channel, locals) => current.render(name, channel, locals),
      get carried() {
        return current.carried
      },
    },
    replace(next) {
      current = next
    },
  }
}

export function liveLinks(first: UnsubscribeLinks): Live<UnsubscribeLinks> {
  let current = first
  return {
    part: {
      ...(first.urlFor === undefined ? {} : { urlFor: (notification) => current.urlFor!(notification) }),
      read: (token) => current.read(token),
    },
    replace(next) {
      current = next
    },
  }
}

export function liveAlerts(first: Alerts): Live<Alerts> {
  let current = first
  return {
    part: { send: (alert) => current.send(alert), close: () => current.close() },
    replace(next) {
      const before = current
      current = next
      void before.close()
    },
  }
}

export function liveAuthenticate(first: Authenticate): Live<Authenticate> {
  let current = first
  return {
    part: Object.assign((request: Parameters<Authenticate>[0]) => current(request), {
      tenantOf: (request: Parameters<Authenticate>[0]) => current.tenantOf?.(request),
    }),
    replace(next) {
      current = next
    },
  }
}

export interface LiveProvider {
  readonly part: Provider
  /** @param accounts the accounts in force, by those with which the pools were created */
  replace(next: Provider, accounts: ReadonlyMap<Account, Account>): void
}

/** A provider whose calls under way end with the secrets with which they began; then it is closed. */
export function liveProvider(first: Provider): LiveProvider {
  let current = {
    provider: first,
    accounts: new Map() as ReadonlyMap<Account, Account>,
    calls: 0,
    ended: false,
  }
  const accountOf = (account: Account): Account => current.accounts.get(account) ?? account

  const { endpointOf, resize, warm } = first
  const part: Provider = {
    ...first,
    ...(endpointOf === undefined
      ? {}
      : { endpointOf: (to, account) => current.provider.endpointOf!(to, accountOf(account)) }),
    ...(resize === undefined
      ? {}
      : { resize: (account, concurrency) => current.provider.resize!(accountOf(account), concurrency) }),
    ...(warm === undefined ? {} : { warm: (account) => current.provider.warm!(accountOf(account)) }),
    send(message, account, signal, onWritten) {
      const own = current
      own.calls += 1
      const call = own.provider.send(message, accountOf(account), signal, onWritten)
      const end = (): void => {
        own.calls -= 1
        if (own.ended && own.calls === 0) void own.provider.close()
      }
      call.then(end, end)
      return call
    },
    close: () => current.provider.close(),
  }
  return {
    part,
    replace(next, accounts) {
      const before = current
      current = { provider: next, accounts, calls: 0, ended: false }
      before.ended = true
      if (before.calls === 0) void before.provider.close()
    },
  }
}
