/** The sentences of an advice, on a terminal and in the page alike, and the line of a policy that follows from it. Pure. */
import type { Advice } from './advice.ts'
import { churnCurve, engagementCurve } from './curves.ts'
import { benefitAt } from './model.ts'
import { percent, shown } from './warnings.ts'

/** "3.4 a week (90 %: 2.9–4.1)." */
export function headline({ frequency, interval: [low, high] }: Advice): string {
  return `${shown(frequency)} a week (90 %: ${shown(low)}–${shown(high)}).`
}

/** "At 5, today's limit, engagement is 6 % higher and churn 41 % higher." Without one, the highest observed frequency. */
export function comparison(
  { frequency, engagement, churn, observed }: Advice,
  today: number | undefined,
): string | undefined {
  const at = today ?? observed[1]
  if (frequency === 0 || Math.abs(at - frequency) < 0.05) return undefined
  const named = today === undefined ? 'the highest that was observed' : "today's limit"
  const engagementRatio =
    engagementCurve.at(engagement.parameters, at) / engagementCurve.at(engagement.parameters, frequency)
  const churnRatio = churnCurve.at(churn.parameters, at) / churnCurve.at(churn.parameters, frequency)
  return `At ${shown(at)}, ${named}, engagement is ${changeText(engagementRatio)} and churn ${changeText(churnRatio)}.`
}

/** "41 % higher", "6 % lower", "3.2 times as high". */
function changeText(ratio: number): string {
  if (ratio >= 2) return `${ratio.toFixed(1)} times as high`
  const change = Math.round(Math.abs(ratio - 1) * 100)
  return `${change} % ${ratio < 1 ? 'lower' : 'higher'}`
}

/** "The complaint limit of 0.1 % binds from 6.2." */
export function complaintText({ complaints, isConstrained, observed }: Advice): string | undefined {
  if (complaints === undefined) return undefined
  const limit = `The complaint limit of ${percent(complaints.limit)}`
  if (complaints.from === undefined) return `${limit} does not bind up to ${shown(observed[1])}.`
  return `${limit} binds from ${shown(complaints.from)}${isConstrained ? ', and holds the frequency down' : ''}.`
}

export const reminder =
  'Who gets more is not random unless it was made so: people who like the messages may have got more of them.'

/** The command that shows on recorded traffic what a changed policy would have done. */
export const replayCommand =
  'sluice export > traffic.ndjson && sluice replay traffic.ndjson --policy new.yaml'

const daysMax = 30

/**
 * The windows for a policy: the whole number of messages a week that brings more, below the limit of complaints; less
 * than one a week becomes one in some days. Undefined where no window of a month says it.
 */
export function policyLine(advice: Advice): string | undefined {
  const { frequency, complaints, worth } = advice
  if (frequency < 1) {
    const days = frequency > 0 ? Math.ceil(7 / frequency) : Number.POSITIVE_INFINITY
    return days <= daysMax ? `max: [1/${days}day]` : undefined
  }
  const curves = { engagement: advice.engagement.parameters, churn: advice.churn.parameters }
  const below = Math.floor(frequency)
  const isAllowed = below + 1 < (complaints?.from ?? Number.POSITIVE_INFINITY)
  const isUp = isAllowed && benefitAt(curves, below + 1, worth) > benefitAt(curves, below, worth)
  return `max: [${isUp ? below + 1 : below}/week]`
}
