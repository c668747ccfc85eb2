/**
 * Loaded before everything else (`node --import`): replaces the one line of the sabotage that the environment names when
 * its file is loaded. Nothing on disk changes.
 */
import { registerHooks } from 'node:module'
import { sabotages } from './sabotages.ts'

const name = process.env.SLUICE_SABOTAGE
const sabotage = sabotages.find((each) => each.name === name)
if (sabotage === undefined) throw new Error(`no sabotage is called ${name}`)
const { file, from, to } = sabotage

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    if (!url.endsWith(`/packages/gateway/src/${file}`)) return loaded
    const source = String(loaded.source)
    if (source.split(from).length !== 2) throw new Error(`the sabotage ${name} fits ${file} no more`)
    return { ...loaded, source: source.replace(from, () => to) }
  },
})
