/** Checks that the templates of a policy's digests exist. Pure. */
import type { FieldError } from '../errors.ts'
import { show } from './faults.ts'
import type { Policy } from './policy.ts'

/** Finds digests without a template: the items that they collect could never be sent. */
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
