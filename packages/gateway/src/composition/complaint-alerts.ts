/** Composes the alerts of the complaint guard: one when a category pauses, and one when it goes on. */
import type { Alerts } from '../ports.ts'
import type { ComplaintChange } from '../reports.ts'
import type { RuntimeContext } from './runtime-context.ts'

export function createComplaintAlerts(
  alerts: Alerts,
  { clock, random }: Pick<RuntimeContext, 'clock' | 'random'>,
): (change: ComplaintChange) => void {
  return ({ before, now, isAdopted }) => {
    // A pause that goes on after a restart was alerted when it began, and that of another process by that one.
    if (isAdopted === true || (now.stage !== 'paused' && before !== 'paused')) return
    const { tenant, category, delivered, complained, bound, until } = now
    const at = clock.now()
    alerts.send({
      id: random.id(at),
      type: now.stage === 'paused' ? 'complaints.paused' : 'complaints.resumed',
      ...{ at, tenant, category, delivered, complained, bound },
      ...(until === undefined ? {} : { until }),
    })
  }
}
