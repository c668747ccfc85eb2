/** The sandbox server as the other side of the conformance suite, for every provider with an API. */
import type { OtherSide, ProviderRig } from '../../../src/conformance/provider.ts'
import type { Account, Provider } from '../../../src/ports.ts'
import type { Fate } from '../../../src/sandbox/behaviour.ts'
import { createSandboxServer } from '../../../src/sandbox/server.ts'

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

/** `account` is given the server's address. */
export async function openRig(
  provider: Provider,
  account: (url: string) => Account | Promise<Account>,
): Promise<ProviderRig> {
  let fate: Fate = 'deliver'
  const server = await createSandboxServer({ behaviour: { retryAfter: '7' }, script: () => fate })
  return {
    provider,
    account: await account(server.url),
    behave(side) {
      fate = fateOf[side]
    },
    hangUp: () => server.hangUp(),
    arrived: () => server.received().map(({ message }) => message.id),
    closeServer: () => server.close(),
  }
}
