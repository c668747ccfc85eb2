/** One provider against the sandbox server, for tests of exactly what is sent and of what each answer means. */
import type { Account, Message, Provider, SendResult } from '../../src/ports.ts'
import type { Fate } from '../../src/sandbox/behaviour.ts'
import type { SeenRequest } from '../../src/sandbox/record.ts'
import { createSandboxServer, type SandboxServer } from '../../src/sandbox/server.ts'

export interface SandboxCalls {
  readonly server: SandboxServer
  /** Sends while the other side does what `fate` says. */
  send(message: Message, fate?: Fate): Promise<SendResult>
  last(): SeenRequest
  close(): Promise<void>
}

export async function openSandboxCalls(
  provider: Provider,
  account: (url: string) => Account,
): Promise<SandboxCalls> {
  let fate: Fate = 'deliver'
  const server = await createSandboxServer({ behaviour: { retryAfter: '30' }, script: () => fate })
  return {
    server,
    send(message, wanted = 'deliver') {
      fate = wanted
      return provider.send(message, account(server.url), AbortSignal.timeout(10_000))
    },
    last: () => server.requests().at(-1)!,
    async close() {
      await provider.close()
      await server.close()
    },
  }
}
