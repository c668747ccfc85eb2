/** The sandbox server as the other side of the conformance suite, for every provider with an API. */
import type { OtherSide, ProviderCapabilities, ProviderRig } from '../../src/conformance/provider.ts'
import type { Account, Provider } from '../../src/ports.ts'
import type { Fate } from '../../src/sandbox/behaviour.ts'
import { createSandboxServer } from '../../src/sandbox/server.ts'

const fateOf: Readonly<Record<OtherSide, Fate>> = {
  accept: 'deliver',
  rate_limit: 'rate_limit',
  refuse: 'reject',
  refuse_address: 'reject_address',
  break: 'fail',
  hang: 'hang',
  reset: 'reset',
  reset_after_accept: 'reset_after_accept',
}

/** Capabilities of a provider with an API, whose calls end after two seconds. */
export const overApi = {
  deadlineMs: 2_000,
  tellsUnknown: true,
  tellsWhenCut: false,
  tellsRetryAfter: true,
  checksAddress: true,
  tellsWritten: true,
  remote: true,
} as const satisfies Omit<ProviderCapabilities, 'channel'>

/** `account` and `pushToken` are given the server's address. */
export async function openRig(
  provider: Provider,
  account: (url: string) => Account | Promise<Account>,
  pushToken?: (url: string) => string,
): Promise<ProviderRig> {
  let fate: Fate = 'deliver'
  const server = await createSandboxServer({ behaviour: { retryAfter: '7' }, script: () => fate })
  return {
    provider: pushToken === undefined ? provider : withDevice(provider, pushToken(server.url)),
    account: await account(server.url),
    behave(side) {
      fate = fateOf[side]
    },
    hangUp: () => server.hangUp(),
    arrived: () => server.received().map(({ message }) => message.id),
    closeServer: () => server.close(),
  }
}

/** Every push service has tokens of its own form, the suite has one of none. */
function withDevice(provider: Provider, pushToken: string): Provider {
  return {
    ...provider,
    send(message, ...rest) {
      const to = message.to.pushToken === undefined ? message.to : { ...message.to, pushToken }
      return provider.send({ ...message, to }, ...rest)
    },
  }
}
