/**
 * The way to the engine: straight (in-process.ts), or to a thread of its own (worker-client.ts), where neither an fsync nor a
 * long question stops the owner's event loop. Either way what is sent is handled in the order of its sending.
 */

import type { ChangeLog } from '../codec/change-log.ts'
import type { DatabaseOptions } from '../database.ts'
import type { HashKey } from '../indexes/hash.ts'
import type { Fault, Questions, Result } from './engine.ts'
import type { Reader } from './reader.ts'

export interface EngineClient {
  readonly hashKey: HashKey
  /** Whether anybody had been erased when the store was opened. */
  readonly hasErased: boolean
  /** Whether the run before this one ended without a close. */
  readonly crashed: boolean
  /** One result a change. Rejects only where the engine is gone. The tape is given away. */
  write(changeLog: ChangeLog): Promise<readonly Result[]>
  /** Rejects with what the engine raised; `onFault` hears of it first. */
  ask<Name extends keyof Questions>(
    name: Name,
    ...args: Parameters<Questions[Name]>
  ): Promise<ReturnType<Questions[Name]>>
  /** Asks what only reads, beside what is written: of a thread there is one more for it. */
  read: Reader['read']
  /** What the last claim came to, from the moment at which its answer is here. */
  claimedUntil(): number
  /** Asks `close` and gives the file up. */
  close(): Promise<void>
}

export interface EngineClientOptions extends DatabaseOptions {
  /** What the wall clock reads at the opening. */
  readonly now: number
  readonly onFault: (fault: Fault) => void
}
