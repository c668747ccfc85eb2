/**
 * Reports SIGINT and SIGTERM to a command: the first signal asks for a graceful shutdown, the second for an
 * exit at once.
 */

/** npm and a terminal both pass on one Ctrl-C: a signal this soon after the first one is a duplicate. */
const sameSignalMs = 500
const signals = ['SIGTERM', 'SIGINT'] as const

export interface Stopping {
  readonly requested: Promise<void>
  readonly requestedAgain: Promise<void>
  forget(): void
}

export function stopSignal(): Stopping {
  const requested = Promise.withResolvers<void>()
  const again = Promise.withResolvers<void>()
  let firstAt: number | undefined
  const onSignal = (): void => {
    firstAt ??= performance.now()
    requested.resolve()
    if (performance.now() - firstAt > sameSignalMs) again.resolve()
  }
  for (const signal of signals) process.on(signal, onSignal)
  return {
    requested: requested.promise,
    requestedAgain: again.promise,
    forget: () => {
      for (const signal of signals) process.off(signal, onSignal)
    },
  }
}
