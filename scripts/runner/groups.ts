/**
 * Puts test files together that can share a process: loading the gateway took 0.4 s of CPU in each of them, a fifth of
 * the whole run. A file has a process of its own where it or a helper of its tests starts a process or a thread, changes
 * the process, measures it or time, waits for a timer that keeps no process alive, or runs something around every test.
 */
import { closure, codeOf, oncePerFile } from '../tidy/imports.ts'
import type { Tree } from '../tidy/tree.ts'

/** Files that run one after the other in one process. */
export type Group = readonly string[]

const ownProcess =
  /(?<![-/])\bprocess\.(?!env\b(?!\.\w+ = |\[)|pid\b|platform\b|cwd\(|nextTick\()|(delete |assign\()process\b|\bmock\b|\bglobal(This)?\b|child_process|worker_threads|perf_hooks|\bperformance\b|AbortSignal\.timeout|\bunref\(|createSite|(?<!\.)\b(before|beforeEach|afterEach)\(/
/** A file above this runs long enough for the start of a process not to matter, characters. */
const fileMax = 20_000
/** A group above this would be the last to end, characters. */
const groupMax = 60_000

/** Answers groups in the order of the files; files of one group stand side by side in their folders. */
export function groupsOf(tree: Tree, files: readonly string[]): readonly Group[] {
  const groups = new Map<string, string[]>()
  let open: string[] = []
  let size = groupMax
  for (const file of [...files].sort()) {
    const length = tree.text(file).length
    if (length > fileMax || !sharesProcess(tree, file)) continue
    if (size + length > groupMax) {
      open = []
      size = 0
    }
    open.push(file)
    size += length
    groups.set(file, open)
  }
  return [...new Set(files.map((file) => groups.get(file) ?? [file]))]
}

/** The file, or the first of several and how many follow. */
export function nameOf([first, ...others]: Group): string {
  return others.length === 0 ? first! : `${first} and ${others.length} more`
}

function sharesProcess(tree: Tree, file: string): boolean {
  if (!file.includes('/test/')) return false
  const own = [...closure(tree, [file])].filter((each) => each.includes('/test/'))
  return [file, ...own].every((each) => !wantsOwnProcess(tree, each))
}

const wantsOwnProcess = oncePerFile((tree, file) => ownProcess.test(codeOf(tree, file)))
