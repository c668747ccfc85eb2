/** Looks at the plans by which PostgreSQL carries statements out: none may read as many rows as a record may have. */
import type { TestContext } from 'node:test'
import { connect, type Db } from '../../../src/store/postgres/connection.ts'
import { addressOf } from './database.ts'

interface PlanNode {
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly Plans?: readonly PlanNode[]
}

const mostOf = ({ 'Actual Rows': rows, 'Actual Loops': loops, Plans: plans = [] }: PlanNode): number =>
  Math.max(rows * loops, ...plans.map(mostOf))

export interface ExplainedDb extends Db {
  /** The most rows that a step of a statement has read since the last question. */
  most(): number
}

/** Opens a connection that carries each statement out twice: to be told what it reads, and for its answer. */
export async function explained(t: TestContext, url: string): Promise<ExplainedDb> {
  const connection = await connect(addressOf(url))
  t.after(() => connection.close())
  let most = 0
  return {
    async query<Row extends object>(text: string, values?: readonly unknown[]) {
      if (/^(BEGIN|COMMIT|ROLLBACK)/.test(text)) return connection.query<Row>(text)
      const [row] = await connection.query<{ 'QUERY PLAN': readonly { readonly Plan: PlanNode }[] }>(
        `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${text}`,
        values,
      )
      most = Math.max(most, mostOf(row!['QUERY PLAN'][0]!.Plan))
      return connection.query<Row>(text, values)
    },
    most() {
      const sinceLast = most
      most = 0
      return sinceLast
    },
  }
}
