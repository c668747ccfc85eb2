/**
 * Finds the records of an answer that are committed. A broker that is asked for committed records gives out those of
 * aborted transactions too, and names the transactions beside them. The client's own filter (2.12) knows one transaction of
 * each producer, and only one whose end is in the same answer. Pure.
 */
import type { Consumer } from '@platformatic/kafka'

export type Answer = Awaited<ReturnType<Consumer['fetch']>>['responses'][number]['partitions'][number]
type Batch = NonNullable<Answer['records']>[number]

const transactionalBatch = 1 << 4
const controlBatch = 1 << 5
/** The type in the key of a control record, behind its version: the transaction ends, and is aborted. */
const abortType = 0

interface CommittedBatch {
  /** The bounds of the batch: everything in it is read. */
  readonly batch: Batch
  /** None where the transaction of the batch was aborted, or where it says how one has ended. */
  readonly records: Batch['records']
}

export function committedBatches({
  records: batches,
  abortedTransactions,
}: Pick<Answer, 'records' | 'abortedTransactions'>): readonly CommittedBatch[] {
  const begins = [...(abortedTransactions ?? [])].sort((a, b) => Number(a.firstOffset - b.firstOffset))
  /** The producers whose transaction is an aborted one at this place: a producer has one at a time. */
  const aborting = new Set<bigint>()
  return (batches ?? []).map((batch) => {
    const end = batch.firstOffset + BigInt(batch.lastOffsetDelta)
    while (begins.length > 0 && begins[0]!.firstOffset <= end) aborting.add(begins.shift()!.producerId)
    if ((batch.attributes & controlBatch) !== 0) {
      if (batch.records[0]?.key?.readInt16BE(2) === abortType) aborting.delete(batch.producerId)
      return { batch, records: [] }
    }
    const isAborted = (batch.attributes & transactionalBatch) !== 0 && aborting.has(batch.producerId)
    return { batch, records: isAborted ? [] : batch.records }
  })
}
