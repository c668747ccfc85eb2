/** Stands for pools and the holds of operators, for the forms of requests and answers. */
import type { PolicyPreview } from '../../src/http/routes/policy-preview.ts'
import type { ReplayReport, Replays } from '../../src/http/routes/replays.ts'
import type { HoldRecord } from '../../src/ports.ts'
import type { OperatorHolds } from '../../src/stages.ts'

/** Holds in memory that do not end by themselves. */
export function stubHolds(now: () => number): OperatorHolds {
  const holds = new Map<string, HoldRecord>()
  return {
    list: () => [...holds.values()],
    async put(request) {
      const hold = { ...request, since: holds.get(request.name)?.since ?? now() }
      holds.set(hold.name, hold)
      return hold
    },
    end: async (name) => holds.delete(name),
  }
}

/** Decides that everything is sent. */
const sendsAll: PolicyPreview = async ({ draft, notification, policy }) => {
  const decide = (policyVersion: string) => ({
    decision: { outcome: 'send' as const, policyVersion, rules: [] },
    channel: draft?.channel ?? notification?.channel ?? ('email' as const),
  })
  // biome-ignore lint/suspicious/noThenProperty: the name of the field in the contract; it is no function
  return { now: decide('p1'), then: decide(policy?.version ?? 'p1') }
}

/** Makes no replay: each is under way, and done when it is asked for. */
const reports = new Map<string, ReplayReport>()
const noReplays: Replays = {
  async start() {
    const report: ReplayReport = {
      id: `replay-${reports.size + 1}`,
      status: 'running',
      progress: 0,
      createdAt: 0,
    }
    reports.set(report.id, report)
    return report
  },
  async find(id) {
    const found = reports.get(id)
    return found && { ...found, status: 'done', progress: 1, result: { requests: 0 } }
  },
  remove: async (id) => reports.delete(id),
  close: async () => {},
}

/** No pool at all, and policies under which everything is sent. */
export const noPools = {
  pools: () => [],
  poolsView: { details: () => [], past: () => undefined },
  policyPreview: sendsAll,
  replays: noReplays,
}
