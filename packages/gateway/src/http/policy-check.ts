/** Checks a policy that came in a request: its depth, its meaning, and the templates of its digests. Pure. */
import { type FieldError, SluiceError } from '../errors.ts'
import { compilePolicy } from '../policy/compile.ts'
import { missingTemplates } from '../policy/digest-templates.ts'
import type { Policy } from '../policy/policy.ts'
import type { Templates } from '../ports.ts'
import { isDeeperThan } from './json.ts'

const policyLevelsMax = 12

/** Returns the compiled policy, or what is wrong with it. */
export function readPolicy(
  document: unknown,
  templates: Pick<Templates, 'has'>,
): { readonly policy?: Policy; readonly errors?: readonly FieldError[] } {
  if (isDeeperThan(document, policyLevelsMax))
    return { errors: [{ path: '', message: `must not be deeper than ${policyLevelsMax} levels` }] }
  try {
    const policy = compilePolicy(document)
    const errors = missingTemplates(policy, templates.has)
    return errors.length === 0 ? { policy } : { errors }
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    const errors = error.errors ?? [{ path: '', message: error.message }]
    return { errors: errors.map(({ path, message }) => ({ path, message })) }
  }
}
