/** The fallback: answers questions that Redis does not answer, where the user prefers an answer to an error. */
import { type Decision, decisionOf } from '../decision.ts'
import { LimitsError } from '../errors.ts'
import { leave } from '../forbidden.ts'
import type { Plan, PlanRule } from '../plan.ts'
import type { Question } from '../store.ts'
import { memoryStore } from './memory.ts'

/** A share is more than 0 and at most 1. */
export type OnUnavailable = 'throw' | 'admit' | 'refuse' | { readonly share: number }

/** A caller that is refused because nothing is known may try again after this time. */
const refusedForMs = 1_000

/** Undefined where the error shall be thrown. @throws LimitsError `INVALID_ARGUMENT` */
export function createFallback(chosen: OnUnavailable): ((question: Question) => Decision) | undefined {
  if (chosen === 'throw') return undefined
  if (chosen === 'admit' || chosen === 'refuse') return (question) => unknown(question, chosen === 'admit')
  const share = chosen?.share
  if (!(typeof share === 'number' && share > 0 && share <= 1)) {
    const reason = "onUnavailable is 'throw', 'admit', 'refuse' or { share } with a share in (0, 1]"
    throw new LimitsError('INVALID_ARGUMENT', reason)
  }
  return byShare(share)
}

/** Nothing is counted and nothing held; there are no rows, because nothing is known. */
function unknown({ terms }: Question, admits: boolean): Decision {
  const now = Date.now()
  const firstAt = leave(terms.forbidden, Math.max(now, terms.notBefore))
  const at = admits ? firstAt : Math.max(firstAt, now + refusedForMs)
  const facts = { allowed: at === now, held: false, fired: false, at, now, firstAt }
  return decisionOf({ ...facts, limit: undefined, refusedBy: [], evicted: [] }, [])
}

function byShare(share: number): (question: Question) => Decision {
  const { sync } = memoryStore()
  const shares = new WeakMap<Plan, Plan>()
  const shareOf = (plan: Plan): Plan => {
    const known = shares.get(plan)
    if (known !== undefined) return known
    const cut = (rule: PlanRule): PlanRule => {
      const counts = rule.max === Number.MAX_SAFE_INTEGER
      const maxWritten = Math.floor(rule.maxWritten * share)
      return { ...rule, maxWritten, max: counts ? rule.max : maxWritten }
    }
    const rulesByStream = plan.rulesByStream.map((rules) => rules.map(cut))
    const made = { ...plan, rules: plan.rules.map(cut), rulesByStream }
    shares.set(plan, made)
    return made
  }
  return ({ kind, plan, subject, id, terms }) => sync[kind](shareOf(plan), subject, id, terms)
}
