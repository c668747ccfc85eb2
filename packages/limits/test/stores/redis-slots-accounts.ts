/** The leases of the exactness test's processes, all of them at saturation. */
export const slotAccounts = [
  { account: 'thousand', windows: '1000/s', want: 100, bounds: [[1_000, 1_000]] },
  {
    account: 'both',
    windows: '400/s, 600/2s',
    want: 400,
    bounds: [
      [400, 1_000],
      [600, 2_000],
    ],
  },
  { account: 'short', windows: '100/100ms', want: 20, bounds: [[100, 100]] },
] as const

/** The calls of one account, in microseconds. */
export interface SlotLog {
  readonly granted: [at: number, count: number][]
  readonly used: number[]
}
