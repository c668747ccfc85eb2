/** Which process can render which templates, in the table of members. */
import type { TemplatesOnRecord } from '../../ports/fleet.ts'
import type { Db } from './connection.ts'

export function createTemplatesOnRecord(db: Db, member: string): Required<TemplatesOnRecord> {
  return {
    async tellTemplates(keys) {
      await db.query('UPDATE member SET templates = $2 WHERE id = $1', [member, keys])
    },
    async templatesOfOthers(keys) {
      const rows = await db.query<{ key: string }>(
        `SELECT key FROM unnest($2::text[]) key WHERE EXISTS (SELECT FROM member
          WHERE id <> $1 AND state = 1 AND (templates IS NULL OR key = ANY(templates)))`,
        [member, keys],
      )
      return rows.map(({ key }) => key)
    },
  }
}
