/**
 * The pages that commands write with `--report`: one HTML file without scripts or anything from elsewhere, light and
 * dark by the reader's preference, from 360 px of width up. A picture has a title, a description and the table that it
 * was drawn from. All text of others is escaped. Pure.
 */

export interface PageOptions {
  readonly title: string
  /** HTML, in order. */
  readonly body: readonly string[]
}

export function htmlPage({ title, body }: PageOptions): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<style>
${style}</style>
<main>
${body.join('\n')}
</main>
</html>
`
}

const style = `  :root { --ink: #1c1917; --soft: #57534e; --rule: #d6d3d1; --paper: #fff; --c1: #c2410c; --c2: #0f766e; --c3: #1d4ed8; --warn: #fef3c7 }
  @media (prefers-color-scheme: dark) {
    :root { --ink: #f5f5f4; --soft: #a8a29e; --rule: #44403c; --paper: #1c1917; --c1: #fb923c; --c2: #2dd4bf; --c3: #93c5fd; --warn: #422006 }
  }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--paper) }
  main { max-width: 64rem; margin: 0 auto; padding: 1rem }
  h1 { font-size: 1.5rem; line-height: 1.25 } h2 { font-size: 1.15rem; line-height: 1.3; margin: 1.5rem 0 .5rem }
  .answer { font-size: 1.15rem } .warning { background: var(--warn); padding: .5rem .75rem; border-radius: 4px }
  .pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 0 2rem }
  figure { margin: 0; min-width: 0 } figcaption, summary { color: var(--soft); font-size: .9rem }
  .table { overflow-x: auto }
  table { border-collapse: collapse; width: 100%; font-size: .9rem }
  th, td { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--rule); font-variant-numeric: tabular-nums }
  th:first-child, td:first-child { text-align: left }
  code, pre { font: .9em ui-monospace, monospace } pre { overflow-x: auto }
  svg { display: block; width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: var(--soft) }
  .axis { stroke: var(--soft) } .grid { stroke: var(--rule) } .mark { stroke: var(--ink); stroke-dasharray: 2 3 } svg .marked { fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 3px }
  .c1 { --c: var(--c1) } .c2 { --c: var(--c2) } .c3 { --c: var(--c3) }
  .line { fill: none; stroke: var(--c); stroke-width: 2 } .line.c2 { stroke-dasharray: 7 3 }
  .band { fill: var(--c); opacity: .18 } .bar, .dot, .key { fill: var(--c) } .reach { stroke: var(--c); stroke-width: 1.5 }
  .key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .4em 0 .8em; background: var(--c) }
`

export interface TableOptions {
  readonly head: readonly string[]
  /** Cells as text; the first of a row is its name. */
  readonly rows: readonly (readonly string[])[]
}

export function htmlTable({ head, rows }: TableOptions): string {
  const cells = (tag: 'th' | 'td', texts: readonly string[]): string =>
    texts.map((text) => `<${tag}>${escapeHtml(text)}</${tag}>`).join('')
  const body = rows.map((row) => `<tr>${cells('td', row)}</tr>`)
  return `<div class="table"><table><tr>${cells('th', head)}</tr>\n${body.join('\n')}</table></div>`
}

export interface FigureOptions {
  readonly heading: string
  readonly svg: string
  /** Names of the series, in the order of their colours. */
  readonly series: readonly string[]
  readonly table: TableOptions
}

/** A picture with its heading, its key, and the table behind it. */
export function htmlFigure({ heading, svg, series, table }: FigureOptions): string {
  const keys = series.map((name, index) => `<span class="key c${index + 1}"></span>${escapeHtml(name)}`)
  return `<figure>
<h2>${escapeHtml(heading)}</h2>
${svg}
<figcaption>${keys.join(' ')}</figcaption>
<details><summary>Table</summary>
${htmlTable(table)}
</details>
</figure>`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!)
}
