/**
 * The Grafana dashboard, out of the table of panels: `node scripts/dashboard/dashboard.ts` writes deploy/grafana/sluice.json
 * anew. A test holds the file against the table. For Grafana 10 and later.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Panel, panels, selected } from './panels.ts'

const file = join(import.meta.dirname, '../../deploy/grafana/sluice.json')
const datasource = { type: 'prometheus', uid: '$datasource' }
/** Grafana's grid has 24 columns: four panels a row. */
const width = 6
const height = 7

function panelOf(panel: Panel, id: number, x: number, y: number): object {
  const { title, expression, unit = 'short', yellow, red, stacked } = panel
  const steps = [
    { color: 'green', value: null },
    ...(yellow === undefined ? [] : [{ color: 'yellow', value: yellow }]),
    ...(red === undefined ? [] : [{ color: 'red', value: red }]),
  ]
  const isStat = panel.row === 'Well'
  return {
    id,
    title,
    type: isStat ? 'stat' : 'timeseries',
    datasource,
    gridPos: { h: height, w: width, x, y },
    targets: [{ refId: 'A', datasource, expr: selected(expression) }],
    fieldConfig: {
      defaults: {
        unit,
        thresholds: { mode: 'absolute', steps },
        ...(isStat ? {} : { custom: { stacking: { mode: stacked === true ? 'normal' : 'none' } } }),
      },
      overrides: [],
    },
    ...(isStat ? { options: { colorMode: 'background', reduceOptions: { calcs: ['lastNotNull'] } } } : {}),
  }
}

function layOut(): object[] {
  const placed: object[] = []
  let y = 0
  for (const [row, those] of Map.groupBy(panels, (panel) => panel.row)) {
    placed.push({
      id: placed.length + 1,
      type: 'row',
      title: row,
      collapsed: false,
      gridPos: { h: 1, w: 24, x: 0, y },
      panels: [],
    })
    y += 1
    for (const [index, panel] of those.entries()) {
      const column = index % (24 / width)
      if (column === 0 && index > 0) y += height
      placed.push(panelOf(panel, placed.length + 1, column * width, y))
    }
    y += height
  }
  return placed
}

const annotation = (name: string, expr: string): object => ({
  name,
  datasource,
  enable: true,
  expr,
  iconColor: 'blue',
})
const variable = (name: string, metric: string): object => ({
  name,
  type: 'query',
  datasource,
  query: { query: `label_values(${metric}, ${name})`, refId: name },
  includeAll: true,
  multi: true,
  allValue: '.*',
  current: { text: 'All', value: '$__all' },
  refresh: 2,
})

export function dashboard(): string {
  return `${JSON.stringify(
    {
      title: 'Sluice',
      uid: 'sluice',
      tags: ['sluice'],
      schemaVersion: 38,
      refresh: '30s',
      time: { from: 'now-3h', to: 'now' },
      templating: {
        list: [
          { name: 'datasource', type: 'datasource', query: 'prometheus' },
          variable('instance', 'sluice_build_info'),
          variable('channel', 'sluice_accepted_total'),
        ],
      },
      annotations: {
        list: [
          annotation('Restart', 'changes(process_start_time_seconds{instance=~"$instance"}[1m]) > 0'),
          annotation('New policy', 'changes(sluice_build_info{instance=~"$instance"}[5m]) > 0'),
        ],
      },
      panels: layOut(),
    },
    null,
    2,
  )}\n`
}

if (process.argv[1] === import.meta.filename) writeFileSync(file, dashboard())
