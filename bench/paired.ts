/** Statistics of figures that were measured in pairs, one right after the other. */
import { median } from './figures.ts'

export const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** The quantile 0.95 of Student's t (Cornish-Fisher expansion; within 1 % from four degrees of freedom). */
function studentT(degrees: number): number {
  const z = 1.644854
  return z + (z ** 3 + z) / (4 * degrees) + (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2)
}

/** The geometric mean of the ratios and the lower bound of its 95 % confidence interval. */
function compare(ratios: readonly number[]): { readonly ratio: number; readonly lower: number } {
  const logs = ratios.map(Math.log)
  const middle = mean(logs)
  const variance = logs.reduce((sum, each) => sum + (each - middle) ** 2, 0) / (logs.length - 1)
  const margin = studentT(logs.length - 1) * Math.sqrt(variance / logs.length)
  return { ratio: Math.exp(middle), lower: Math.exp(middle - margin) }
}

/** The head of a table of pairs. */
export function pairsHead(first: string, second: string): string {
  return `\n${'figure'.padEnd(44)} ${first.padStart(9)} ${second.padStart(9)}  ratio  lower 95 %  median`
}

/**
 * A row of it: both means, and the ratio, oriented so that more than 1 is better for the second. The median of the
 * ratios is less moved by rounds that a busy machine spoiled.
 */
export function pairsRow(
  what: string,
  first: readonly number[],
  second: readonly number[],
  lessIsBetter: boolean,
): string {
  const ratios = second.map((figure, index) =>
    lessIsBetter ? first[index]! / figure : figure / first[index]!,
  )
  const { ratio, lower } = compare(ratios)
  const [one, other] = [first, second].map((figures) => mean(figures).toFixed(1).padStart(9))
  return `${what.padEnd(44)} ${one} ${other}  ${ratio.toFixed(3)}  ${lower.toFixed(3).padEnd(10)}  ${median(ratios).toFixed(3)}`
}
