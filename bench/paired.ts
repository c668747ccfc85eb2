/** Statistics of figures that were measured in pairs, one right after the other. */

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** The quantile 0.95 of Student's t (Cornish-Fisher expansion; within 1 % from four degrees of freedom). */
function studentT(degrees: number): number {
  const z = 1.644854
  return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)
}

/** The geometric mean of the ratios and the lower bound of its 95 % confidence interval. */
export function compare(ratios: readonly number[]): { readonly ratio: number; readonly lower: number } {
  const logs = ratios.map(Math.log)
  const middle = mean(logs)
  const variance = logs.reduce((sum, each) => sum + (each - middle) ** 2, 0) / (logs.length - 1)
  const margin = studentT(logs.length - 1) * Math.sqrt(variance / logs.length)
  return { ratio: Math.exp(middle), lower: Math.exp(middle - margin) }
}
