/**
 * Shares the partitions of topics among the members of a consumer group: each partition goes to a member that takes its
 * topic. The client's own assigner gives the partitions of the leader's topic to every member, so that two topics of one
 * group were not taken at all. Pure.
 */
import type { GroupPartitionsAssigner } from '@platformatic/kafka'

type Assignments = ReturnType<GroupPartitionsAssigner>

export const assignPartitions: GroupPartitionsAssigner = (_leader, members, _topics, metadata) => {
  const assigned = new Map<string, Assignments[number]>()
  // In the order of their ids, so that a rebalance without a change of members moves nothing.
  for (const memberId of [...members.keys()].sort())
    assigned.set(memberId, { memberId, assignments: new Map() })
  const topics = new Set([...members.values()].flatMap((member) => member.topics ?? []))
  for (const topic of topics) {
    const takers = [...assigned.values()].filter(({ memberId }) =>
      members.get(memberId)!.topics?.includes(topic),
    )
    const count = metadata.topics.get(topic)?.partitionsCount ?? 0
    for (let partition = 0; partition < count; partition += 1) {
      const { assignments } = takers[partition % takers.length]!
      const own = assignments.get(topic) ?? { topic, partitions: [] }
      own.partitions.push(partition)
      assignments.set(topic, own)
    }
  }
  return [...assigned.values()]
}
