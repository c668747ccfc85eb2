/** Reads everything that a store answers, in a form in which two stores can be compared. */
import { epoch } from '../../../src/conformance/store/sample.ts'
import { type Digest, type Job, statuses } from '../../../src/model.ts'
import type { Page, Store } from '../../../src/ports.ts'

export const tenants: readonly string[] = ['acme', 'other', 'third']
export const people: readonly string[] = ['ada', 'bob', 'eve', 'joe', 'kim']
/** More than a sequence has of anything. */
export const all = 1_000_000

/** Values without what two stores may do differently: orders of equals, and names of erased recipients. */
export function plain(value: unknown): unknown {
  const text = JSON.stringify(value ?? null, (key, each: unknown) => (key === 'version' ? undefined : each))
  return JSON.parse(text.replaceAll(/erased:[\w-]+/g, 'erased:*'))
}
export const sorted = (list: readonly unknown[]): readonly string[] =>
  list.map((each) => JSON.stringify(canonical(plain(each)))).sort()
function canonical(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(canonical)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, each]) => [key, canonical(each)]),
  )
}

/**
 * Ids in their order. The summary of a digest has an id that is older than its acceptance: one store lists it by its id,
 * another by its acceptance, so it is compared apart.
 */
const inOrder = (ids: readonly string[]) => ({
  ids: ids.filter((id) => !id.startsWith('m')),
  summaries: ids.filter((id) => id.startsWith('m')).sort(),
})

async function pages<T>(read: (cursor: string | null) => Promise<Page<T>>): Promise<readonly T[]> {
  const found: T[] = []
  for (let cursor: string | null = null, more = true; more; ) {
    const page: Page<T> = await read(cursor)
    found.push(...page.items)
    cursor = page.nextCursor
    more = cursor !== null
  }
  return found
}

/** Reads all lists, counts and rows of three tenants, and of these digests and jobs. */
export async function everything(store: Store, digests: readonly Digest[], jobs: readonly Job[]) {
  const perTenant = await Promise.all(
    tenants.map(async (tenant) => ({
      list: (await pages((cursor) => store.list({ tenant, limit: 17, ...(cursor && { cursor }) }))).map(
        plain,
      ),
      due: inOrder(
        (
          await pages((cursor) =>
            store.list({ tenant, limit: 11, order: 'sendAt', ...(cursor && { cursor }) }),
          )
        ).map(({ id }) => id),
      ),
      admissions: sorted(await store.admissions({ tenant, since: epoch + 100, limit: all })),
      accepted: sorted(
        await pages((cursor) =>
          store.counted({ tenant, accepted: true, since: epoch + 200, limit: 13, ...(cursor && { cursor }) }),
        ),
      ),
      people: await Promise.all(
        people.map(async (recipient) => ({
          stored: plain(await store.recipient(tenant, recipient)),
          waiting: inOrder(
            (await pages((cursor) => store.waiting(tenant, recipient, cursor, 3))).map(({ id }) => id),
          ),
          admissions: sorted(await store.admissions({ tenant, recipient, since: epoch + 100, limit: all })),
          counted: sorted(
            await pages((cursor) =>
              store.counted({ tenant, recipient, since: epoch + 50, limit: 7, ...(cursor && { cursor }) }),
            ),
          ),
        })),
      ),
    })),
  )
  return {
    perTenant,
    tallies: sorted((await store.tallies()).filter(({ count }) => count !== 0)),
    dead: inOrder((await store.deadLetters({ limit: all })).items.map(({ id }) => id)),
    throttled: (await store.inThrottleQueue({ limit: all })).map(({ id }) => id),
    scanned: inOrder(
      (await pages((cursor) => store.scan({ statuses, limit: 29, ...(cursor && { cursor }) }))).map(
        ({ id, status }) => `${id} ${status}`,
      ),
    ),
    nextDueAt: await store.nextDueAt(),
    nextDigestAt: await store.nextDigestAt(),
    digests: await Promise.all(
      digests.map(async (digest) => [
        plain(await store.digest(digest.id)),
        (await store.digestItems(digest, null, all)).items.map(({ id }) => id).sort(),
      ]),
    ),
    jobs: await Promise.all(
      jobs.map(async (job) => [
        plain(await store.job(job.tenant, job.id)),
        plain(await store.jobWork(job)),
        await store.jobMembers(job).then((members) => members.map(({ id, status }) => `${id} ${status}`)),
      ]),
    ),
    contents: sorted(await store.waitingContents()),
    accounts: sorted(await store.accounts()),
    holds: sorted(await store.holds()),
    backlog: sorted(await cells(store)),
  }
}

async function cells(store: Store): Promise<readonly unknown[]> {
  const counts = new Map<string, number>()
  for (const { count, example: _, detail: _detail, ...cell } of await store.backlog()) {
    const key = JSON.stringify(canonical(cell))
    counts.set(key, (counts.get(key) ?? 0) + count)
  }
  return [...counts]
}
