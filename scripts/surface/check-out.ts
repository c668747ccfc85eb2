/** Another commit of this project beside the packages that are installed here, so that its gateway can run. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Extracts a commit and links the packages that are installed here. @returns its folder, which the caller removes */
export function checkOut(commit: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-surface-'))
  const archive = execFileSync('git', ['archive', commit], { cwd: root, maxBuffer: 2 ** 30 })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@sluice'), { recursive: true })
  for (const name of readdirSync(join(root, 'node_modules')))
    if (name !== '@sluice') symlinkSync(join(root, 'node_modules', name), join(modules, name))
  // The workspace's own packages are those of the commit.
  for (const name of readdirSync(join(folder, 'packages'))) {
    symlinkSync(join(folder, 'packages', name), join(modules, '@sluice', name))
    const own = join(root, 'packages', name, 'node_modules')
    if (existsSync(own)) symlinkSync(own, join(folder, 'packages', name, 'node_modules'))
  }
  return folder
}
