/**
 * The structure checks: what the architecture and the house style say, asked of the files themselves.
 * `npm run tidy` prints each check with its faults; `npm run tidy -- --record` lowers the recorded file sizes.
 */
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readArguments } from '../runner/arguments.ts'
import {
  adaptersHaveOneDoor,
  decidingIsPure,
  emulatorsShareNothing,
  importsStayInside,
} from './boundaries.ts'
import type { Check, Fault } from './check.ts'
import { importsHaveNoCircles } from './circles.ts'
import { codesAreDocumented, codesAreTested } from './codes.ts'
import { dependenciesAreNamed } from './dependencies.ts'
import { wordsOfTheField } from './glossary.ts'
import { lockIsWhole, lockNamesNoHost, lockRunsOnOldestNode } from './lockfile.ts'
import {
  filesStaySmall,
  loweredCeilings,
  mapNamesFolders,
  namesSaySomething,
  nothingIsDead,
  wayIsShort,
} from './map.ts'
import { commentsAreSentences } from './sentences.ts'
import { readTree } from './tree.ts'
import { linksLead, noMachinePaths, nothingIsPutOff, pagesAreListed, stepsAreInOrder } from './words.ts'

const usage = `Usage: npm run tidy -- [options]
  --record   lower the recorded sizes of files to what they are now`

export const checks: readonly Check[] = [
  importsStayInside,
  adaptersHaveOneDoor,
  emulatorsShareNothing,
  importsHaveNoCircles,
  decidingIsPure,
  dependenciesAreNamed,
  mapNamesFolders,
  wayIsShort,
  filesStaySmall,
  namesSaySomething,
  wordsOfTheField,
  commentsAreSentences,
  nothingIsDead,
  codesAreDocumented,
  codesAreTested,
  nothingIsPutOff,
  noMachinePaths,
  lockNamesNoHost,
  lockIsWhole,
  lockRunsOnOldestNode,
  linksLead,
  pagesAreListed,
  stepsAreInOrder,
]

export interface Outcome {
  readonly name: string
  readonly faults: readonly Fault[]
}

/** Runs every check over the project at `root`. */
export async function tidy(root: string): Promise<Outcome[]> {
  const tree = readTree(root)
  return Promise.all(checks.map(async ({ name, faults }) => ({ name, faults: await faults(tree) })))
}

/** Faults of one check that are printed: the first ones usually explain the rest. */
const shownMax = 20

/** One line a check, and under it one a fault. */
export function describe(outcomes: readonly Outcome[]): string {
  return outcomes
    .flatMap(({ name, faults }) => [
      `${faults.length === 0 ? '✔' : '✖'} ${name}`,
      ...faults
        .slice(0, shownMax)
        .map(({ where, what, wayOut }) => `    ${where} ${what}\n        → ${wayOut}`),
      ...(faults.length > shownMax ? [`    … and ${faults.length - shownMax} more`] : []),
    ])
    .join('\n')
}

if (basename(process.argv[1] ?? '') === 'tidy.ts') {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const { values } = readArguments(usage, { record: { type: 'boolean' } })
  if (values.record === true) {
    const sizes = JSON.stringify(loweredCeilings(readTree(root)), null, 2)
    writeFileSync(join(root, 'scripts/tidy-sizes.json'), `${sizes}\n`)
  }
  const outcomes = await tidy(root)
  console.log(describe(outcomes))
  process.exitCode = outcomes.some(({ faults }) => faults.length > 0) ? 1 : 0
}
