/**
 * The generations of limiter state that several processes share. A tenant's throttle queues and its room are values that
 * can be lost at any instant; each fill from the record gives the value its next generation. A change names the
 * generations in which it was decided, and the store refuses one from before a fill: the fill could not read it.
 */
import type { TenantGeneration } from './ports.ts'

const none: { readonly generations?: readonly TenantGeneration[] } = {}

/** Makes the part of a change that names its generations; state of this process alone has none. */
export function generationsOf(
  tenant: string,
  numbers: { readonly [State in TenantGeneration['state']]?: number | undefined },
): { readonly generations?: readonly TenantGeneration[] } {
  const { throttle, room } = numbers
  if (throttle === undefined && room === undefined) return none
  return {
    generations: [
      ...(throttle === undefined ? [] : [{ tenant, state: 'throttle' as const, number: throttle }]),
      ...(room === undefined ? [] : [{ tenant, state: 'room' as const, number: room }]),
    ],
  }
}
