/**
 * The probability distributions that advice needs: binomial draws, the tail of chi-square, and Wilson's interval of a
 * share. Fewer than fifty lines each, so no library takes their place (decision 0028). Pure.
 */

/** An interval of a value: its low and its high end. */
export type Interval = readonly [low: number, high: number]

/** Stirling's series of ln Γ(x + 1), exact to 1e-10 from 10 on; below that the factorial is multiplied out. */
function logFactorial(x: number): number {
  if (x < 10) {
    let product = 1
    for (let factor = 2; factor <= x; factor += 1) product *= factor
    return Math.log(product)
  }
  const inverse = 1 / x
  const series = inverse * (1 / 12 - inverse ** 2 * (1 / 360 - inverse ** 2 / 1_260))
  return x * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI * x) + series
}

/**
 * Makes a sampler of the binomial distribution, exact: it inverts one random number, beginning at the mode and going
 * outward on both sides, which takes some standard deviations of steps.
 */
export function binomialSampler(trials: number, share: number, chance: () => number): () => number {
  if (share <= 0 || trials === 0) return () => 0
  if (share >= 1) return () => trials
  const odds = share / (1 - share)
  const mode = Math.min(trials, Math.floor((trials + 1) * share))
  const atMode = Math.exp(
    logFactorial(trials) -
      logFactorial(mode) -
      logFactorial(trials - mode) +
      mode * Math.log(share) +
      (trials - mode) * Math.log1p(-share),
  )
  return () => {
    let left = chance() - atMode
    let [low, high] = [mode, mode]
    let [pLow, pHigh] = [atMode, atMode]
    while (left >= 0) {
      if (high < trials) {
        pHigh *= ((trials - high) / (high + 1)) * odds
        high += 1
        left -= pHigh
        if (left < 0) return high
      } else pHigh = 0
      if (low > 0) {
        pLow *= low / ((trials - low + 1) * odds)
        low -= 1
        left -= pLow
        if (left < 0) return low
      } else pLow = 0
      // Rounding leaves less than 1e-9 over, which stands for the mode.
      if (pLow + pHigh < 1e-18) return mode
    }
    return mode
  }
}

/** Returns P(X ≥ x) of the chi-square distribution: the regularised upper incomplete gamma function Q(k/2, x/2). */
export function chiSquareTail(x: number, degrees: number): number {
  if (x <= 0 || degrees <= 0) return 1
  const [shape, value] = [degrees / 2, x / 2]
  const scale = Math.exp(shape * Math.log(value) - value - logGamma(shape))
  if (value < shape + 1) {
    let term = 1 / shape
    let sum = term
    for (let n = 1; n < 1_000 && term > sum * 1e-15; n += 1) {
      term *= value / (shape + n)
      sum += term
    }
    return Math.min(1, Math.max(0, 1 - scale * sum))
  }
  // Lentz's continued fraction (Numerical Recipes, 6.2).
  let b = value + 1 - shape
  let c = 1e300
  let d = 1 / b
  let fraction = d
  for (let n = 1; n < 1_000; n += 1) {
    const a = -n * (n - shape)
    b += 2
    d = 1 / (a * d + b)
    c = b + a / c
    fraction *= d * c
    if (Math.abs(d * c - 1) < 1e-15) break
  }
  return Math.min(1, scale * fraction)
}

/** Returns ln Γ of a whole or half number above 0. */
function logGamma(x: number): number {
  let shifted = x
  let product = 0
  while (shifted < 12) {
    product += Math.log(shifted)
    shifted += 1
  }
  return logFactorial(shifted - 1) - product
}

/** z of a two-sided interval of 95 %. */
const z95 = 1.959_964

/** Returns Wilson's interval of a share, 95 % two-sided (Wilson 1927): it holds for few events and for none. */
export function wilson(events: number, trials: number, z = z95): Interval {
  if (trials === 0) return [0, 1]
  const share = events / trials
  const weight = z ** 2 / trials
  const middle = share + weight / 2
  const reach = z * Math.sqrt((share * (1 - share)) / trials + weight / (4 * trials))
  return [Math.max(0, (middle - reach) / (1 + weight)), Math.min(1, (middle + reach) / (1 + weight))]
}

/** Returns a quantile of sorted values, interpolated. */
export function quantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share
  const below = Math.floor(place)
  const low = sorted[below] ?? Number.NaN
  const high = sorted[Math.min(below + 1, sorted.length - 1)] ?? low
  return low + (high - low) * (place - below)
}
