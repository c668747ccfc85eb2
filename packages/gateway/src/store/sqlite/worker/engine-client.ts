/**
 * The client of the engine, in the owner's thread (in-process.ts) or to a thread of its own (worker-client.ts), where
 * neither an fsync nor a long question stops the owner's event loop. Either way messages are handled in the order of
 * sending.
 */

import type { ChangeLog } from '../codec/change-log.ts'
import type { DatabaseOptions } from '../database.ts'
import type { HashKey } from '../indexes/hash.ts'
import type { Fault, Questions, Result } from './engine.ts'
import type { Reader } from './reader.ts'

export interface EngineClient {
  readonly hashKey: HashKey
  /** True if any recipient had been erased when the store was opened. */
  readonly hasErased: boolean
  /** True if the run before this one ended without a close, or closed the store unsettled. */
  readonly unsettled: boolean
  /** The first key that no part of a large value on record has. */
  readonly partsKey: number
  /**
   * Writes changes and returns one result for each. Rejects only where the engine is gone. Bytes in the change
   * log are transferred.
   */
  write(changeLog: ChangeLog): Promise<readonly Result[]>
  /** Asks a question. Rejects with the engine's error, which `onFault` gets first. */
  ask<Name extends keyof Questions>(
    name: Name,
    ...args: Parameters<Questions[Name]>
  ): Promise<ReturnType<Questions[Name]>>
  /** Asks a read-only question, beside the writes: with a thread, in a second thread. */
  read: Reader['read']
  /** Yields to the event loop between two slices of a page; in process, where virtual time stands still, at once. */
  pause(): Promise<void>
  /** The `claimedUntil` after the last `claimDue`, from the moment at which its answer is here. */
  claimedUntil(): number
  /** Asks `close` and releases the file. */
  close(isSettled: boolean): Promise<void>
}

export interface EngineClientOptions extends DatabaseOptions {
  /** The wall clock at the opening. */
  readonly now: number
  readonly onFault: (fault: Fault) => void
}
