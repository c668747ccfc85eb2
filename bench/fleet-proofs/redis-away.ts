/**
 * The Redis of several gateways is stopped (SIGSTOP) and killed in turn while all of them accept. Each decision is made within
 * its deadline as the policy declares, nothing is lost, and no window is over.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { callsOf, startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { startRedis } from '../../scripts/services/redis.ts'
import { burst, quantile } from './burst-load.ts'
import { countOver, isNothingOver, limits } from './over.ts'
import { beatMs, type Proof } from './proof.ts'

/** The deadline of a question to Redis, ms; a decision asks three at most before it knows that nobody answers. */
const deadlineMs = 300
/** A decision may take so much longer on a machine whose cores are taken, ms. */
const machineMs = 1_500
const awayMs = 3_000

export const redisAway: Proof = {
  shows: 'Redis is stopped and killed under load: decisions within the deadline, as declared, 0 over, 0 lost',
  engines: ['postgres'],
  small: { times: 2, processes: 2, clients: 12 },
  full: { times: 12, processes: 4, clients: 12 },
  async run({ cleanup, times, processes, clients, progress }) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-proof-away-'))
    cleanup.after(() => rmSync(folder, { recursive: true, force: true }))
    let service = await startRedis({ folder })
    cleanup.after(() => service.stop())
    const name = 'proof_away'
    const { policy, rate } = limits
    const fleet = await startFleet(cleanup, {
      name,
      redis: service.url,
      deadline: `${deadlineMs}ms`,
      count: processes,
      beatMs,
      policy,
      rate,
      tenants: { ...limits.tenants, limited: { rate: '60/2s', queue: 100_000 } },
    })
    let isOver = false
    const posting = burst(fleet, () => isOver, clients)
    for (let away = 0; away < times; away += 1) {
      await sleep(3_000)
      if (away % 2 === 0) {
        process.kill(service.pid, 'SIGSTOP')
        await sleep(awayMs)
        process.kill(service.pid, 'SIGCONT')
      } else {
        process.kill(service.pid, 'SIGKILL')
        await service.stop()
        await sleep(awayMs)
        service = await startRedis({ folder, port: Number(new URL(service.url).port) })
      }
      progress(`${away + 1} of ${times} times away`)
    }
    await sleep(3_000)
    isOver = true
    const { accepted, answers, tookMs } = await posting
    // A notification that the rate of its tenant holds back is sent later than this.
    await sleep(10_000)
    const over = await countOver(fleet, schemaUrl(name))
    const called = new Set((await callsOf(fleet)).map(({ id }) => id))
    const figures = {
      processes,
      away: times,
      accepted: accepted.length,
      called: accepted.filter((id) => called.has(id)).length,
      ...over,
      answers,
      p50Ms: quantile(tookMs, 0.5),
      p99Ms: quantile(tookMs, 0.99),
      mostMs: quantile(tookMs, 1),
    }
    const undeclared = Object.entries(answers).filter(
      ([said]) => !/^(202|429)|^503 (STATE_UNAVAILABLE|QUEUE_FULL)/.test(said),
    )
    const isDeclared =
      undeclared.length === 0 &&
      (answers['503 STATE_UNAVAILABLE'] ?? 0) > 0 &&
      (answers['202 state_unavailable'] ?? 0) > 0
    return {
      figures,
      isRight: isNothingOver(over) && isDeclared && figures.mostMs < 3 * deadlineMs + machineMs,
    }
  },
}
