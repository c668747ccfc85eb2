/**
 * A registry of metrics that costs little to write to. Counting adds to a number that is held ready; label names
 * and text are made when the metrics are scraped. prom-client hashes the labels at every observation instead, which
 * measured 1 to 2 µs.
 */
import { Counter, Gauge, Histogram, type MetricValue, Registry } from 'prom-client'

export type SetValue = (labels: readonly string[], value: number) => void
/** Reports every series of a metric at a scrape. */
type Fill = (set: SetValue) => void | Promise<void>

/** The observations of one series of a histogram. */
export class Distribution {
  readonly counts: number[]
  sum = 0
  readonly #bounds: readonly number[]

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let index = 0
    while (index < this.#bounds.length && value > this.#bounds[index]!) index += 1
    this.counts[index]! += 1
    this.sum += value
  }
}

/** The series of one histogram, by their labels. */
class Distributions {
  readonly #bounds: readonly number[]
  readonly #series = new Map<string, { readonly labels: readonly string[]; readonly of: Distribution }>()

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
  }

  /** Finds the series with these labels; it is created with its first use. Callers bound the number of labels. */
  of(...labels: readonly string[]): Distribution {
    const key = labels.length === 1 ? labels[0]! : labels.join('\n')
    let series = this.#series.get(key)
    if (series === undefined) {
      series = { labels, of: new Distribution(this.#bounds) }
      this.#series.set(key, series)
    }
    return series.of
  }

  get size(): number {
    return this.#series.size
  }

  values(name: string, labelNames: readonly string[]): MetricValue<string>[] {
    const values: (MetricValue<string> & { metricName: string })[] = []
    for (const { labels, of } of this.#series.values()) {
      const named = labelled(labelNames, labels)
      let count = 0
      for (const [index, bound] of this.#bounds.entries()) {
        count += of.counts[index]!
        values.push({ metricName: `${name}_bucket`, labels: { ...named, le: bound }, value: count })
      }
      count += of.counts.at(-1)!
      values.push({ metricName: `${name}_bucket`, labels: { ...named, le: '+Inf' }, value: count })
      values.push({ metricName: `${name}_sum`, labels: named, value: of.sum })
      values.push({ metricName: `${name}_count`, labels: named, value: count })
    }
    return values
  }
}

/** A histogram of prom-client whose series are Distributions. */
class DistributionHistogram extends Histogram {
  readonly #describe: () => object

  constructor(
    name: string,
    help: string,
    labelNames: readonly string[],
    series: Distributions,
    register: Registry,
  ) {
    super({ name, help, labelNames: [...labelNames], registers: [register] })
    this.#describe = () => ({
      name,
      help,
      type: 'histogram',
      aggregator: 'sum',
      values: series.values(name, labelNames),
    })
  }

  override async get(): Promise<never> {
    return this.#describe() as never
  }

  /** prom-client asks this method first where a histogram has it. */
  getForPromString(): Promise<never> {
    return this.get()
  }
}

export interface Meter {
  readonly contentType: string
  gauge(name: string, help: string, labelNames: readonly string[], fill: Fill): void
  counter(name: string, help: string, labelNames: readonly string[], fill: Fill): void
  histogram(
    name: string,
    help: string,
    labelNames: readonly string[],
    bounds: readonly number[],
  ): Distributions
  text(): Promise<string>
}

export function createMeter(): Meter {
  const register = new Registry()
  const registers = [register]
  return {
    contentType: register.contentType,
    gauge(name, help, labelNames, fill) {
      new Gauge({
        name,
        help,
        labelNames: [...labelNames],
        registers,
        collect() {
          this.reset()
          return fill((labels, value) => this.set(labelled(labelNames, labels), value))
        },
      })
    },
    counter(name, help, labelNames, fill) {
      new Counter({
        name,
        help,
        labelNames: [...labelNames],
        registers,
        collect() {
          this.reset()
          return fill((labels, value) => this.inc(labelled(labelNames, labels), value))
        },
      })
    },
    histogram(name, help, labelNames, bounds) {
      const series = new Distributions(bounds)
      new DistributionHistogram(name, help, labelNames, series, register)
      if (labelNames.length === 0) series.of()
      return series
    },
    text: () => register.metrics(),
  }
}

/** The count of one series of a Tally. */
export interface Cell {
  count: number
}

/** Counts by two or three labels. Combinations that are known beforehand are there from the start, with 0. */
export class Tally {
  readonly #counts = new Map<string, Map<string, Map<string, Cell>>>()

  add(first: string, second: string, third = '', by = 1): void {
    this.cell(first, second, third).count += by
  }

  /** Finds the count of a combination; it is created with its first use. A caller that counts often keeps it. */
  cell(first: string, second: string, third = ''): Cell {
    return this.#counts.get(first)?.get(second)?.get(third) ?? this.#create(first, second, third)
  }

  #create(first: string, second: string, third: string): Cell {
    const seconds = this.#counts.get(first) ?? new Map<string, Map<string, Cell>>()
    this.#counts.set(first, seconds)
    const thirds = seconds.get(second) ?? new Map<string, Cell>()
    seconds.set(second, thirds)
    const leaf = { count: 0 }
    thirds.set(third, leaf)
    return leaf
  }

  readonly each = (tell: SetValue): void => {
    for (const [first, seconds] of this.#counts) {
      for (const [second, thirds] of seconds) {
        for (const [third, { count }] of thirds)
          tell(third === '' ? [first, second] : [first, second, third], count)
      }
    }
  }
}

const labelled = (names: readonly string[], values: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name, index) => [name, values[index]!]))
