/** The rules that the decision of a notification shows which a limit moved to another channel. */
import type { Reservation } from '../ports.ts'
import { ruleReports, type Verdict } from './candidate.ts'

/** Puts the rules of the asked channel, of which one has refused, before those of the fallback channel. */
export function behindRules(refused: Reservation, verdict: Verdict): Verdict {
  const { decision } = verdict
  return { ...verdict, decision: { ...decision, rules: [...ruleReports(refused), ...decision.rules] } }
}
