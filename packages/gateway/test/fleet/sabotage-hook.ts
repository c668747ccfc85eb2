/**
 * Loaded before everything else (`node --import`): replaces the one line of the sabotage that the environment names when
 * its file is loaded, or read where it is a script of Redis. Nothing on disk changes.
 */
import fs from 'node:fs'
import { registerHooks, syncBuiltinESMExports } from 'node:module'
import { sabotages } from './sabotages.ts'

const name = process.env.SLUICE_SABOTAGE
const sabotage = sabotages.find((each) => each.name === name)
if (sabotage === undefined) throw new Error(`no sabotage is called ${name}`)
const { file, from, to } = sabotage

function sabotaged(source: string): string {
  if (source.split(from).length !== 2) throw new Error(`the sabotage ${name} fits ${file} no more`)
  return source.replace(from, () => to)
}

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    if (!url.endsWith(`/packages/gateway/src/${file}`)) return loaded
    return { ...loaded, source: sabotaged(String(loaded.source)) }
  },
})
if (file.endsWith('.lua')) {
  const { readFileSync } = fs
  fs.readFileSync = ((path: fs.PathOrFileDescriptor, ...rest: readonly never[]) => {
    const source = readFileSync(path, ...rest)
    return String(path).endsWith(`/packages/gateway/src/${file}`) ? sabotaged(String(source)) : source
  }) as typeof readFileSync
  syncBuiltinESMExports()
}
