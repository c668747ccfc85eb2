/** The room of the tenants of one process, in memory. A tenant without anything waiting has no entry. */
import type { Occupancy, Room, RoomState, RoomTaken, TenantBounds } from '../../ports/tenants.ts'

const nothing: Occupancy = { queue: 0, waiting: 0, bytes: 0 }

export function createMemoryRoom(): RoomState {
  const tenants = new Map<string, { -readonly [Bound in keyof Occupancy]: number }>()

  function count(tenant: string, { queue = 0, waiting = 0, bytes = 0 }: Partial<Occupancy>): void {
    const of = tenants.get(tenant)
    if (of === undefined) {
      if (queue !== 0 || waiting !== 0 || bytes !== 0) tenants.set(tenant, { queue, waiting, bytes })
      return
    }
    of.queue += queue
    of.waiting += waiting
    of.bytes += bytes
    if (of.queue === 0 && of.waiting === 0 && of.bytes === 0) tenants.delete(tenant)
  }

  return {
    count,
    take(tenant, room, bounds): RoomTaken {
      const used = tenants.get(tenant) ?? nothing
      const full = fullBound(used, room, bounds)
      if (full !== undefined) return { full, used: used[full] }
      const { waiting, bytes = 0 } = room
      const queue = room.queue + room.critical
      count(tenant, { queue, waiting, bytes })
      let isGiven = false
      return {
        giveBack() {
          if (isGiven) return
          isGiven = true
          count(tenant, { queue: -queue, waiting: -waiting, bytes: -bytes })
        },
      }
    },
    of: (tenant) => ({ ...(tenants.get(tenant) ?? nothing) }),
  }
}

/** Returns the bound that has not enough room. */
export function fullBound(of: Occupancy, room: Room, bounds: TenantBounds): keyof Occupancy | undefined {
  const { queue, critical, waiting, bytes = 0 } = room
  const { queueMax, waitingMax, bytesMax } = bounds
  if (waiting > 0 && of.waiting + waiting > waitingMax) return 'waiting'
  // Critical notifications have a tenth on top; a queue bound below ten has one place on top, too.
  const queueFull = queue > 0 && of.queue + queue > queueMax
  if (queueFull || (critical > 0 && of.queue + queue + critical > queueMax + Math.ceil(queueMax / 10)))
    return 'queue'
  const isCritical = critical > 0 && queue + waiting === 0
  if (bytes > 0 && of.bytes + bytes > bytesMax * (isCritical ? 1.1 : 1)) return 'bytes'
  return undefined
}
