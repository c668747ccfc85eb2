/** Keeps a claim to fill a value of Redis while the record is read, which takes longer than a claim lasts where much is on it. */

export interface ClaimRenewal {
  /** The claim is renewed so often, ms: a renewal that comes late, or after the fill, changes nothing. */
  readonly everyMs: number
  /** And so many times: where this process reads nothing, another one fills the value. */
  readonly timesMax: number
}

/** Renews a claim until the returned function is called. */
export function keepClaim(renew: () => void, { everyMs, timesMax }: ClaimRenewal): () => void {
  let times = 0
  const renewing = setInterval(() => {
    times += 1
    if (times <= timesMax) renew()
  }, everyMs)
  renewing.unref()
  return () => clearInterval(renewing)
}
