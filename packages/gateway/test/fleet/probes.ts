/**
 * Asks every process of a calm run for what it must do again once all faults are over: accept a notification of each
 * tenant and deliver it, and accept as many that wait as the bound of the tenant says, not one more.
 */
import type { Client, Exchange, Open } from './client.ts'
import { modules, type Settings, second, tenants } from './settings.ts'
import type { World } from './world.ts'

export interface Prober {
  /** Posts to each process; returns when all that was accepted has had time to be delivered. */
  run(isQuiet: () => boolean): Promise<void>
}

/** A bound above this is not filled: that would take too many calls. */
const filledMax = 40
/** So many more than the bound are posted. */
const beyond = 3
/** A notification that fills a bound leaves behind this, ms. */
const waitMs = 8 * second
const deliveredMs = 180 * second

const isAccepted = ({ response }: Exchange): boolean => response?.status === 202 || response?.status === 429

export function createProber(
  world: World,
  settings: Settings,
  client: Client,
  serving: () => readonly Open[],
): Prober {
  const { waitingMax, rates } = settings

  function postToEach(): readonly Exchange[] {
    return serving().flatMap((open) =>
      tenants.map((tenant) => {
        const name = `probe of process ${open.process.number}`
        const recipient = `probe-${open.process.number}`
        return client.probe(name, { tenant, module: modules[0] }, { recipient }, open)
      }),
    )
  }

  /** Posts more than may wait, to all processes at once. */
  function fill(tenant: string): readonly Exchange[] {
    const open = serving()
    const sendAt = world.now() + waitMs
    return Array.from({ length: waitingMax + beyond }, (_, index) => {
      const recipient = `filling-${index}`
      const caller = { tenant, module: modules[1] }
      return client.probe(`filling ${index}`, caller, { recipient, sendAt }, open[index % open.length]!)
    })
  }

  async function runFor(ms: number, isOver = (): boolean => false): Promise<void> {
    const until = world.elapsed() + ms
    while (world.elapsed() < until && !isOver()) await world.run(Math.min(until, world.elapsed() + second))
  }

  return {
    async run(isQuiet) {
      if (serving().length === 0) return
      const probes = postToEach()
      await runFor(2 * second)
      for (const probe of probes) {
        if (isAccepted(probe)) continue
        const { status = 'nothing', code = '' } = probe.response ?? {}
        world.violate(
          '14 refused',
          `${probe.caller.tenant} gets ${status} ${code} of process ${probe.process}, and nothing disturbs it`,
        )
      }
      await runFor(deliveredMs, isQuiet)
      if (waitingMax > filledMax) return
      for (const tenant of tenants) {
        // A notification that a limit of the tenant holds up counts in another bound.
        if (rates.some((rate) => rate.tenant === tenant)) continue
        const filling = fill(tenant)
        await runFor(2 * second)
        const accepted = filling.filter(isAccepted).length
        if (accepted !== waitingMax)
          world.violate('7 room', `${accepted} of ${tenant} were accepted to wait, of ${waitingMax}`)
        await runFor(deliveredMs, isQuiet)
      }
    },
  }
}
