/** The engine in the thread of its owner: for the simulator, whose virtual time stands still while it works. */
import { openDatabase } from '../database.ts'
import { diskFault } from '../sqlite-errors.ts'
import type { Engine } from './engine.ts'
import { createEngine, errorOf, faultOf } from './engine.ts'
import type { EngineClient, EngineClientOptions } from './engine-client.ts'

export function openInProcess(options: EngineClientOptions): EngineClient {
  const { path, now, onFault } = options
  const { db, small, unlock, ...opened } = openDatabase(options)
  let engine: Engine
  try {
    engine = createEngine({ db, path, now, verify: small })
  } catch (error) {
    db.close()
    unlock()
    throw diskFault(error, path) ?? error
  }
  const sweep = (): void => {
    while (engine.sweep());
  }
  sweep()
  const client: EngineClient = {
    ...opened,
    async write(changeLog) {
      const results = engine.write([changeLog])
      sweep()
      return results
    },
    async ask(name, ...args) {
      try {
        const question = engine.questions[name] as (...args: unknown[]) => never
        return question(...args)
      } catch (error) {
        const fault = faultOf(error, path)
        onFault(fault)
        throw errorOf(fault)
      }
    },
    read: (name, ...args) => client.ask(name, ...args) as Promise<never>,
    pause: async () => {},
    claimedUntil: () => engine.claimedUntil(),
    close: (isSettled) => client.ask('close', isSettled).finally(unlock),
  }
  return client
}
