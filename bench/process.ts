/** The processes of a benchmark and the way to ask them: one answer a question, in order. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

export interface Asked {
  readonly name: string
  readonly given: unknown
}

export type Answered = { readonly value: unknown } | { readonly error: string }

export interface Peer {
  ask<T>(name: string, given?: unknown): Promise<T>
  stop(): Promise<void>
}

const flags = [
  '--conditions=sluice-source',
  '--disable-warning=ExperimentalWarning',
  ...(process.env.SLUICE_BENCH_FLAGS?.split(' ') ?? []),
]

/** How the launcher starts a gateway: with these flags, and these variables in its environment. */
export const serving = JSON.parse(
  readFileSync(join(import.meta.dirname, '../packages/gateway/bin/serving.json'), 'utf8'),
) as { readonly flags: readonly string[]; readonly env: NodeJS.ProcessEnv }

/** `file` beside this one, or an absolute path; typed arrays pass as they are. */
export function start(file: string, ...args: readonly string[]): Peer {
  const { flags: own, env } = args[0] === 'gateway.ts' ? serving : { flags: [], env: {} }
  const child: ChildProcess = fork(resolve(import.meta.dirname, file), args, {
    execArgv: [...own, ...flags],
    env: { ...env, ...process.env },
    serialization: 'advanced',
  })
  const asked: PromiseWithResolvers<unknown>[] = []
  child.on('message', (answer: Answered) => {
    const { resolve, reject } = asked.shift()!
    if ('error' in answer) reject(new Error(answer.error))
    else resolve(answer.value)
  })
  const ended = once(child, 'exit').then(([code]) => {
    for (const { reject } of asked) reject(new Error(`${file} ended with code ${code}`))
  })
  return {
    ask<T>(name: string, given?: unknown) {
      const answer = Promise.withResolvers<unknown>()
      asked.push(answer)
      child.send({ name, given } satisfies Asked)
      return answer.promise as Promise<T>
    },
    async stop() {
      child.disconnect()
      await ended
    },
  }
}

/** The other side: answers each question by the function of its name; ends when it is let go. */
export function answer(
  questions: Readonly<Record<string, (given: never) => unknown>>,
  end?: () => Promise<void>,
): void {
  // One question after the other: answers have no name.
  let last: Promise<void> = Promise.resolve()
  const answerNext = async ({ name, given }: Asked): Promise<void> => {
    let answered: Answered
    try {
      answered = { value: await questions[name]!(given as never) }
    } catch (error) {
      answered = { error: (error as Error).stack ?? String(error) }
    }
    process.send!(answered)
  }
  process.on('message', (asked: Asked) => {
    last = last.then(() => answerNext(asked))
  })
  process.on('disconnect', async () => {
    await end?.()
    process.exit()
  })
}
