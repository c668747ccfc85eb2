/** Declares that a test needs a real engine. */
import { engines } from './engines.ts'

/** Skips with this beginning are failures where `CI` is set. */
export const missingEngine = 'needs an engine: '

/**
 * Options for a test that needs engines: `test('…', needs('redis'), …)`. It is skipped where the environment names
 * none, as in a plain `node --test`; `npm test` starts the engines that the chosen tests need.
 */
export function needs(...names: readonly string[]): { skip: string | false } {
  const missing = names.filter((name) => !isAtHand(name))
  return { skip: missing.length > 0 && `${missingEngine}${missing.join(', ')} (npm run services -- run …)` }
}

/** True if the environment names the engine. */
export function isAtHand(name: string): boolean {
  const engine = engines[name]
  if (!engine) throw new Error(`there is no engine "${name}"`)
  return engine.env.every((key) => Boolean(process.env[key]))
}
