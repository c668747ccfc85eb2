/**
 * The page of an advice: the observed points with their intervals and both curves, what one more message brings, and
 * the rate of complaints. Pure.
 */
import { type Mark, type Series, svgChart } from '../report/chart.ts'
import { escapeHtml, htmlFigure, htmlPage, htmlTable } from '../report/page.ts'
import type { Advice } from './advice.ts'
import type { ComplaintLimit } from './complaints.ts'
import { type Curve, churnCurve, engagementCurve } from './curves.ts'
import { wilson } from './distributions.ts'
import type { CurveFit } from './model.ts'
import { comparison, complaintText, headline, policyLine, reminder, replayCommand } from './recommendation.ts'
import { percent, shown, significant } from './warnings.ts'

interface AdviceReportOptions {
  readonly advice: Advice
  /** Name of the file that was read, without folders. */
  readonly source: string
  /** Messages a week that are allowed today. */
  readonly today: number | undefined
}

export function adviceReport({ advice, source, today }: AdviceReportOptions): string {
  const line = policyLine(advice)
  const sentences = [comparison(advice, today), complaintText(advice)].filter((text) => text !== undefined)
  const marks: readonly Mark[] = [
    { axis: 'x', at: advice.frequency, label: `best ${shown(advice.frequency)}` },
    ...(today === undefined ? [] : [{ axis: 'x', at: today, label: `today ${shown(today)}` } as const]),
  ]
  return htmlPage({
    title: `${headline(advice)} Frequency advice · Sluice`,
    body: [
      '<h1>How often is best</h1>',
      `<p class="answer"><strong>${escapeHtml(headline(advice))}</strong> ${escapeHtml(sentences.join(' '))}</p>`,
      ...advice.warnings.map((warning) => `<p class="warning">Warning: ${escapeHtml(warning)}.</p>`),
      `<p>${reminder}</p>`,
      ...(line === undefined
        ? []
        : [
            `<p>In the policy: <code>${line}</code>. Try it on recorded traffic: <code>${escapeHtml(replayCommand)}</code></p>`,
          ]),
      '<div class="pictures">',
      ...curveFigures(advice, marks),
      benefitFigure(advice, marks),
      ...(advice.complaints === undefined ? [] : [complaintFigure(advice.complaints, marks, widest(advice))]),
      '</div>',
      '<h2>Parameters</h2>',
      parameterTable(advice),
      ...(advice.segments.length === 0 ? [] : ['<h2>Segments</h2>', segmentTable(advice)]),
      `<p>From ${escapeHtml(source)}, value ${advice.worth.value}, cost ${advice.worth.cost}. Intervals of points and complaints: Wilson, 95 %; all others 90 %, by a bootstrap over people.</p>`,
    ],
  })
}

const widest = ({ benefit }: Advice): number => benefit.at(-1)!.frequency
const aWeek = 'messages a week'
const share = (value: number): string => percent(value)

function curveFigures(advice: Advice, marks: readonly Mark[]): string[] {
  const figures = [
    ['Engagement', 'engaged', engagementCurve, advice.engagement, 1],
    ['Churn', 'churned', churnCurve, advice.churn, 2],
  ] as const
  return figures.map(([name, counted, curve, fit, colour]) =>
    htmlFigure({
      heading: `${name}, share of people a week`,
      svg: curveChart({ name, counted, curve, fit, colour, marks, last: widest(advice) }),
      series: [],
      table: {
        head: [aWeek, 'people', counted, 'share', '95 %', 'curve', 'off by'],
        rows: fit.points.map(({ frequency, people, count, fitted, deviation }) => [
          String(frequency),
          people.toLocaleString('en'),
          count.toLocaleString('en'),
          percent(count / people),
          wilson(count, people).map(percent).join(' – '),
          percent(fitted),
          `${deviation.toFixed(1)} σ`,
        ]),
      },
    }),
  )
}

interface CurveChart {
  readonly name: string
  readonly counted: string
  readonly curve: Curve
  readonly fit: CurveFit
  readonly colour: 1 | 2
  readonly marks: readonly Mark[]
  readonly last: number
}

function curveChart({ name, counted, curve, fit, colour, marks, last }: CurveChart): string {
  const at = (index: number): number => (last * index) / 80
  const line = Array.from(
    { length: 81 },
    (_, index) => [at(index), curve.at(fit.parameters, at(index))] as const,
  )
  const dots = fit.points.map(
    ({ frequency, people, count }) => [frequency, count / people, ...wilson(count, people)] as const,
  )
  // A curve may leave the picture at its right end, where nothing was observed.
  const highest = Math.max(...dots.map(([, , , high]) => high))
  const series: readonly Series[] = [
    { kind: 'line', name: `${name}, curve`, colour, points: line },
    { kind: 'dots', name: counted, colour, points: dots },
  ]
  return svgChart({
    title: `${name} by messages a week`,
    description: `Dots: the observed share with its interval of 95 %, from ${dots[0]![0]} to ${dots.at(-1)![0]} a week. Line: the curve fitted to them.`,
    x: { label: aWeek, max: last },
    y: { label: `share ${counted}`, max: highest * 1.1, text: share },
    series,
    marks,
  })
}

function benefitFigure(advice: Advice, marks: readonly Mark[]): string {
  const { benefit, worth } = advice
  const inside = benefit.filter(
    ({ frequency }) => frequency <= Math.max(advice.observed[1], advice.frequency),
  )
  const lows = inside.map(({ low }) => low)
  const highs = inside.map(({ high }) => high)
  const heading = `Benefit: ${worth.value} · engagement − ${worth.cost} · churn`
  return htmlFigure({
    heading,
    svg: svgChart({
      title: 'Benefit by messages a week',
      description: `The difference rises to its best at ${shown(advice.frequency)} a week and falls beyond; the band holds it with 90 %.`,
      x: { label: aWeek, max: widest(advice) },
      y: {
        label: 'a person and week',
        min: Math.min(0, ...lows),
        max: Math.max(...highs) * 1.1,
        text: significant,
      },
      series: [
        {
          kind: 'band',
          name: '90 %',
          colour: 3,
          points: benefit.map(({ frequency, low, high }) => [frequency, low, high]),
        },
        {
          kind: 'line',
          name: 'benefit',
          colour: 3,
          points: benefit.map((point) => [point.frequency, point.benefit]),
        },
      ],
      marks,
    }),
    series: [],
    table: {
      head: [aWeek, 'benefit', '90 %'],
      rows: benefit
        .filter((_, index) => index % 5 === 0)
        .map((point) => [
          shown(point.frequency),
          significant(point.benefit),
          `${significant(point.low)} – ${significant(point.high)}`,
        ]),
    },
  })
}

function complaintFigure(
  { limit, points, from }: ComplaintLimit,
  marks: readonly Mark[],
  last: number,
): string {
  const highest = Math.max(limit, ...points.map(({ high }) => high))
  const binds = from === undefined ? 'does not reach it' : `reaches it at ${shown(from)} a week`
  return htmlFigure({
    heading: 'Complaints, share of delivered messages',
    svg: svgChart({
      title: 'Rate of complaints by messages a week',
      description: `Dots: the rate with its interval of 95 %. The upper bound (line) ${binds}; the limit is ${percent(limit)}.`,
      x: { label: aWeek, max: last },
      y: { label: 'complaints', max: highest * 1.1, text: share },
      series: [
        {
          kind: 'dots',
          name: 'complaints',
          colour: 1,
          points: points.map(({ frequency, delivered, complaints, low, high }) => [
            frequency,
            complaints / delivered,
            low,
            high,
          ]),
        },
        {
          kind: 'line',
          name: 'upper bound',
          colour: 2,
          points: points.map(({ frequency, bound }) => [frequency, bound]),
        },
      ],
      marks: [...marks, { axis: 'y', at: limit, label: `limit ${percent(limit)}` }],
    }),
    series: ['rate', 'upper bound'],
    table: {
      head: [aWeek, 'delivered', 'complaints', 'rate', '95 %', 'bound'],
      rows: points.map(({ frequency, delivered, complaints, low, high, bound }) => [
        String(frequency),
        delivered.toLocaleString('en'),
        complaints.toLocaleString('en'),
        percent(complaints / delivered),
        `${percent(low)} – ${percent(high)}`,
        percent(bound),
      ]),
    },
  })
}

function parameterTable({ engagement, churn }: Advice): string {
  const rows = [
    ['engagement a·ln(1+b·f)', engagement, ['a', 'b']],
    ['churn c·e^(d·f)', churn, ['c', 'd']],
  ] as const
  return htmlTable({
    head: ['curve', 'parameter', 'value', '90 %', 'fit p'],
    rows: rows.flatMap(([form, fit, names]) =>
      names.map((name, index) => [
        form,
        name,
        significant(fit.parameters[index]!),
        fit.intervals[index]!.map(significant).join(' – '),
        significant(fit.pValue),
      ]),
    ),
  })
}

function segmentTable({ segments }: Advice): string {
  return htmlTable({
    head: ['segment', 'best a week', '90 %'],
    rows: segments.map(({ name, frequency, interval }) => [
      name || '–',
      frequency === undefined ? 'too little data' : shown(frequency),
      interval === undefined ? '–' : interval.map(shown).join(' – '),
    ]),
  })
}
