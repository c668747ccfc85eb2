/** Reads what one process sees of the record of a fleet, in a form in which two records can be compared. */
import assert from 'node:assert/strict'
import { epoch } from '../../../src/conformance/store/sample.ts'
import { type Digest, type Job, type Status, statuses } from '../../../src/model.ts'
import type { TenantRecords } from '../../../src/ports/tenants.ts'
import type { Page, Store, StoredRecipient } from '../../../src/ports.ts'
import { all, plain, sorted } from './everything.ts'

/** Names that look or sort alike. */
export const tenants = ['acme', 'Acme', 'äc %']
export const people = ['ada', 'a\u0301da', 'áda', 'o"\\n\'', '😀']

/** A recipient without the versions, which differ. */
export const recipientOf = (stored: StoredRecipient | undefined): unknown =>
  plain(stored && { ...stored, version: undefined, left: stored.left !== undefined })

async function pagesOf<T extends { readonly id: string }>(
  read: (cursor: string | null) => Promise<Page<T>>,
): Promise<readonly T[]> {
  const found: T[] = []
  let cursor: string | null = null
  do {
    const page: Page<T> = await read(cursor)
    found.push(...page.items)
    cursor = page.nextCursor
  } while (cursor !== null)
  assert.equal(new Set(found.map(({ id }) => id)).size, found.length, 'a page repeats a row')
  return found
}

const withCursor = (cursor: string | null) => (cursor === null ? {} : { cursor })

/** An answer without the instant of a right to send, which the model does not keep. */
const withoutBegun = <T extends object>({ begunAt: _, ...rest }: T & { readonly begunAt?: number }) => rest

/** Statuses by which a notification that waits is selected, or shown while another process may send it. */
const selections: readonly (readonly Status[])[] = [
  statuses,
  ['queued'],
  ['sending'],
  ['scheduled', 'sending'],
]

/** Reads all lists, counts and rows, and of these digests and jobs. */
export async function overview(store: Store, digests: readonly Digest[], jobs: readonly Job[]) {
  const perTenant = await Promise.all(
    tenants.map(async (tenant) => ({
      list: sorted(
        (await pagesOf((cursor) => store.list({ tenant, limit: 17, ...withCursor(cursor) }))).map(
          withoutBegun,
        ),
      ),
      due: (
        await pagesOf((cursor) => store.list({ tenant, limit: 5, order: 'sendAt', ...withCursor(cursor) }))
      ).map(({ id, status }) => `${id} ${status}`),
      admissions: sorted(
        (await store.admissions({ tenant, since: epoch + 50, limit: all })).map(withoutBegun),
      ),
      people: await Promise.all(
        people.map(async (recipient) => [
          recipientOf(await store.recipient(tenant, recipient)),
          (await pagesOf((cursor) => store.waiting(tenant, recipient, cursor, 3))).map(({ id }) => id),
          sorted(
            (
              await pagesOf((cursor) =>
                store.counted({ tenant, recipient, since: epoch + 50, limit: 7, ...withCursor(cursor) }),
              )
            ).map(withoutBegun),
          ),
          sorted(
            (await store.admissions({ tenant, recipient, since: epoch + 50, limit: all })).map(withoutBegun),
          ),
        ]),
      ),
    })),
  )
  return {
    perTenant,
    tallies: sorted((await store.tallies()).filter(({ count }) => count !== 0)),
    dead: (await pagesOf((cursor) => store.deadLetters({ limit: 4, ...withCursor(cursor) }))).map(
      ({ id }) => id,
    ),
    scanned: await Promise.all(
      selections.map(async (selected) =>
        (await pagesOf((cursor) => store.scan({ statuses: selected, limit: 9, ...withCursor(cursor) }))).map(
          ({ id, status }) => `${id} ${status}`,
        ),
      ),
    ),
    throttled: (await store.inThrottleQueue({ limit: all })).map(({ id }) => id),
    nextDueAt: await store.nextDueAt(),
    nextDigestAt: await store.nextDigestAt(),
    dueDigests: sorted(await store.dueDigests(epoch + 100_000, all)),
    digests: await Promise.all(
      digests.map(async (digest) => [
        plain(await store.digest(digest.id)),
        sorted((await pagesOf((cursor) => store.digestItems(digest, cursor, 2))).map(({ id }) => id)),
      ]),
    ),
    jobs: await Promise.all(
      jobs.map(async (job) => [
        plain(await store.job(job.tenant, job.id)),
        plain(await store.jobWork(job)),
        sorted((await store.jobMembers(job)).map(({ id, status }) => `${id} ${status}`)),
      ]),
    ),
    running: sorted((await store.runningJobs()).map(({ id }) => id)),
    contents: sorted(await store.waitingContents()),
    accounts: sorted(await store.accounts()),
    holds: sorted(await store.holds()),
    erasures: sorted(await store.erasures()),
  }
}

/** Reads what the processes together have on record of each tenant, from which lost limiter state is filled. */
export const countsOf = (records: TenantRecords) =>
  Promise.all(
    tenants.map(async (tenant) => {
      const { counted, waiting } = await records.entries(tenant, epoch + 50)
      const uses = (await records.tallies(tenant)).filter(
        ({ queue, waiting, bytes }) => queue !== 0 || waiting !== 0 || bytes !== 0,
      )
      return {
        generations: await records.generations(tenant),
        counted: sorted(counted),
        waiting: sorted(waiting),
        uses: sorted(uses),
      }
    }),
  )
