/**
 * `sluice sandbox` in a process of its own, which is not killed with the gateway: it plays the provider, keeps every
 * call, and counts with code of its own.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'

import { product } from '../product.ts'

interface Call {
  readonly at: number
  readonly account: string
  readonly message: { readonly to: { readonly phone: string } }
  readonly fate: string
  readonly arrived: boolean
}

export type SandboxProcess = Awaited<ReturnType<typeof openSandbox>>

export async function openSandbox(t: Pick<TestContext, 'after'>) {
  const child = spawn(process.execPath, [
    ...product.args,
    'sandbox',
    '--port',
    '0',
    '--smtp-port',
    '0',
    '--json',
  ])
  t.after(() => child.kill('SIGKILL'))
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  const { url } = JSON.parse(first.value as string) as { url: string }
  const get = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${url}/_sandbox/${path}`)).json()) as T
  return {
    url,
    calls: async () => (await get<{ items: readonly Call[] }>('calls')).items,
    counters: (account: string) =>
      get<{ calls: number; whileBlocked: number; fates: Record<string, number> }>(
        `counters?account=${account}`,
      ),
    /** The calls of each account in its fullest window of this length. */
    windows: async (window: string) =>
      (await get<{ items: readonly { account: string; most: number }[] }>(`windows?window=${window}`)).items,
    async behave(behaviour: object, account?: string) {
      const query = account === undefined ? '' : `?account=${account}`
      const body = JSON.stringify(behaviour)
      const answer = await fetch(`${url}/_sandbox/behaviour${query}`, { method: 'PUT', body })
      assert.equal(answer.status, 204)
    },
  }
}
