/** Metrics of a gateway that serves a record beside others: its rights, what it took over, and the clock that all follow. */
import type { Meter } from './meter.ts'

/** The figures of a process of a fleet. All counts are those of this process. */
export interface FleetReport {
  /** Gateways that are alive as far as this one knows, itself included. */
  readonly gateways: number
  /** Rights to send that the record gave and refused. */
  readonly rights: Readonly<Record<'given' | 'refused', number>>
  /** Changes that the record refused because the state of their tenant was filled elsewhere since they were decided. */
  readonly outdated: number
  /** Notifications of gateways that died, by whether their call may have left. */
  readonly takenOver: Readonly<Record<'may_have_left' | 'waiting', number>>
  /** Lives of servers of the limits of which this process has heard since its start. */
  readonly servers: number
  /** How wrong the clock of this process may be beside that of the record, ms; undefined where it follows none. */
  readonly clockErrorMs: number | undefined
}

export function measureFleet(meter: Meter, report: () => FleetReport): void {
  meter.gauge(
    'sluice_fleet_gateways',
    'Gateways over the same record that are alive as far as this one knows, itself included.',
    [],
    (set) => set([], report().gateways),
  )
  const counter = (name: string, help: string, label: string, of: keyof FleetReport): void =>
    meter.counter(name, help, [label], (set) => {
      for (const [value, count] of Object.entries(report()[of] ?? {})) set([value], count)
    })
  counter(
    'sluice_fleet_rights_total',
    'Rights to send for which this gateway asked the record, given and refused.',
    'outcome',
    'rights',
  )
  counter(
    'sluice_fleet_taken_over_total',
    'Notifications that this gateway took over from gateways that died, by whether their call may have left.',
    'state',
    'takenOver',
  )
  meter.counter(
    'sluice_fleet_outdated_changes_total',
    'Changes that were decided anew because another gateway had filled the state of their tenant since.',
    [],
    (set) => set([], report().outdated),
  )
  meter.counter(
    'sluice_fleet_servers_total',
    'New lives of a server of the limits of which this gateway has heard: what it holds is read from the record anew.',
    [],
    (set) => set([], report().servers),
  )
  meter.gauge(
    'sluice_fleet_clock_error_seconds',
    'How wrong the clock of this gateway may be beside that of PostgreSQL.',
    [],
    (set) => {
      const { clockErrorMs } = report()
      if (clockErrorMs !== undefined) set([], clockErrorMs / 1_000)
    },
  )
}
