/**
 * The entrance of a process, as HTTP has it: idempotency keys, one edit of a recipient after the other, and answers as a
 * status with a body. Requests that a killed process had are never answered.
 */

import { createHash } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { createMemoryOnce } from '../../src/adapters/one-process.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Gateway } from '../../src/gateway.ts'
import { type Answer, createIdempotency, type Keep } from '../../src/http/idempotency.ts'
import { createRecipientEditor } from '../../src/http/recipient-editor.ts'
import type { Draft, Recipient } from '../../src/model.ts'
import type { Once } from '../../src/ports/fleet.ts'
import type { Clock, JobWork } from '../../src/ports.ts'
import type { Admitted, Caller } from '../../src/stages.ts'
import type { HoldPlan } from './settings.ts'

interface Accepted {
  readonly id: string
  readonly status: string
  /** It was queued behind the limit of its tenant or module: 429. */
  readonly behind?: string
  /** The instant that the client was told, epoch ms. */
  readonly at?: number
}

export interface Response {
  readonly status: number
  readonly code?: string
  readonly accepted?: readonly Accepted[]
  readonly job?: string
  readonly replayed?: boolean
  /** A hold is in force for so long from now on. */
  readonly heldMs?: number
  /** Dead letters that a redrive left because their tenant had no room. */
  readonly leftFull?: number
}

export interface Entrance {
  post(caller: Caller, drafts: readonly Draft[], key: string | undefined): Promise<Response>
  openJob(caller: Caller, work: JobWork, key: string | undefined): Promise<Response>
  cancel(tenant: string, id: string): Promise<Response>
  cancelJob(tenant: string, id: string): Promise<Response>
  patch(tenant: string, id: string, change: Partial<Recipient>): Promise<Response>
  erase(tenant: string, id: string): Promise<Response>
  redrive(tenant: string): Promise<Response>
  preview(caller: Caller, draft: Draft): Promise<Response>
  hold(name: string, plan: HoldPlan): Promise<Response>
  endHold(name: string): Promise<Response>
}

interface Body {
  readonly accepted?: readonly Accepted[]
  readonly job?: string
}

export function createEntrance(
  gateway: Gateway,
  clock: Clock,
  inProgress: Once = createMemoryOnce(),
): Entrance {
  const { gate, jobs, store, erase, holds } = gateway
  const idempotency = createIdempotency({ store, once: inProgress, clock })
  const editor = createRecipientEditor({ gate, store })

  async function answered(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work()
    } catch (error) {
      if (error instanceof SluiceError) return { status: error.status, code: error.code }
      throw error
    }
  }

  async function once(
    caller: Caller,
    path: string,
    request: object,
    key: string | undefined,
    work: (keep: Keep | undefined) => Promise<Answer>,
  ): Promise<Response> {
    const hash = createHash('sha256').update(JSON.stringify(request)).digest('hex')
    const headers = key === undefined ? {} : { 'idempotency-key': key }
    const received = { hash: () => hash }
    const { status, body, replayed } = await idempotency.once(
      {
        headers,
        caller,
        method: 'POST',
        url: path,
        routeOptions: { url: path },
        received,
      } as never as FastifyRequest,
      work,
    )
    return { status, ...(JSON.parse(body) as Body), ...(replayed === undefined ? {} : { replayed }) }
  }

  function acceptedBy({ notification, queuedBehind }: Admitted): Accepted {
    const { id, status, decision } = notification
    return {
      id,
      status,
      ...(queuedBehind === undefined ? {} : { behind: queuedBehind }),
      ...(decision.at === undefined ? {} : { at: decision.at }),
    }
  }

  const answerTo = (results: readonly Admitted[]): Answer => {
    const accepted = results.map(acceptedBy)
    const isOver = accepted.length === 1 && accepted[0]!.behind !== undefined
    return { status: isOver ? 429 : 202, body: JSON.stringify({ accepted } satisfies Body) }
  }

  return {
    post: (caller, drafts, key) =>
      answered(() =>
        once(caller, '/notifications', drafts, key, async (keep) => {
          let answer: Answer | undefined
          const results = await gate.admit({
            caller,
            drafts,
            ...(keep && {
              answer: (decided) => {
                answer = answerTo(decided)
                return keep(answer)
              },
            }),
          })
          return answer ?? answerTo(results)
        }),
      ),
    openJob: (caller, work, key) =>
      answered(() =>
        once(caller, '/notifications/batch', work, key, async (keep) => {
          const bodyOf = (id: string): string => JSON.stringify({ job: id } satisfies Body)
          const { id } = await jobs.open({
            caller,
            work,
            refused: [],
            bytes: 100,
            ...(keep && { answer: (job) => keep({ status: 202, body: bodyOf(job.id) }) }),
          })
          return { status: 202, body: bodyOf(id) }
        }),
      ),
    cancel: (tenant, id) =>
      answered(async () => {
        await gate.cancel(tenant, id)
        return { status: 204 }
      }),
    cancelJob: (tenant, id) =>
      answered(async () => {
        const job = await store.job(tenant, id)
        if (job === undefined) return { status: 404 }
        await jobs.cancel(job)
        return { status: 204 }
      }),
    patch: (tenant, id, change) =>
      answered(async () => {
        await editor.edit(tenant, id, (before) => ({ ...before, ...change, id, tenant }))
        return { status: 200 }
      }),
    erase: (tenant, id) =>
      answered(async () => {
        await editor.alone(tenant, id, () => erase(tenant, id))
        return { status: 204 }
      }),
    redrive: (tenant) =>
      answered(async () => {
        const { left } = await gate.redrive({ tenant, all: true })
        return { status: 200, leftFull: left.filter(({ why }) => why === 'queue_full').length }
      }),
    preview: (caller, draft) =>
      answered(async () => {
        await gate.preview(caller, draft)
        return { status: 200 }
      }),
    hold: (name, { forMs, selection }) =>
      answered(async () => {
        const { until } = await holds.put({ name, ...selection, until: clock.now() + forMs, reason: 'r' })
        return { status: 200, heldMs: until - clock.now() }
      }),
    endHold: (name) => answered(async () => ({ status: (await holds.end(name)) ? 204 : 404 })),
  }
}
