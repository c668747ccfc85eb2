/** The templates that the digests of a policy are told with: they must exist. Pure. */
import type { FieldError } from '../errors.ts'
import { show } from './faults.ts'
import type { Policy } from './policy.ts'

/** Digests without a template: what they collect would never be told to anybody. */
export function missingTemplates(
  { digests }: Pick<Policy, 'digests'>,
  has: (template: string) => boolean,
): readonly FieldError[] {
  return digests.flatMap(({ template }, index) =>
    has(template)
      ? []
      : [{ path: `digests[${index}].template`, message: `there is no template ${show(template)}` }],
  )
}
