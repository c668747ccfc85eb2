/** Policies and notifications that several tests of this folder share. */
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { SluiceError } from '../../src/errors.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Countable } from '../../src/ports.ts'

const path = new URL('../../policy/default.yaml', import.meta.url)

/** The default policy's document, new at each call. */
export function defaultDocument(): Record<string, unknown> {
  return parse(readFileSync(path, 'utf8'))
}

export const defaultPolicy: Policy = compilePolicy(defaultDocument())

export function policyWith(limits: readonly object[], more: object = {}): Policy {
  return compilePolicy({ limits, ...more })
}

/** An ordinary notification with the given fields replaced. */
export function notification(given: Partial<Countable> = {}): Countable {
  return {
    tenant: 'acme',
    module: 'shop',
    to: { id: 'ada', email: 'ada@example.com' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    ...given,
  }
}

/** The mistakes of a document as `path: message`. */
export function faultsOf(document: unknown): readonly string[] {
  try {
    compilePolicy(document)
    return []
  } catch (error) {
    if (!(error instanceof SluiceError) || error.code !== 'INVALID_POLICY') throw error
    return (error.errors ?? []).map((fault) => `${fault.path}: ${fault.message}`)
  }
}

/** The seed of a random test: from SLUICE_SEED, printed so that a failure can be repeated. */
export const seed = Number(process.env.SLUICE_SEED ?? 20261121)
console.log(`# SLUICE_SEED=${seed}`)
