/**
 * Joins the sources of the gateway, of its threads and of what they use to a few files, for the gateways that tests start
 * as processes of their own, some 270 in a run: such a start takes 0.42 s of CPU where that of a thousand files takes
 * 0.62, and that of a thread of the store 0.06 where that of eighty takes 0.11. The gateway that beats faster, of which
 * the tests of a fleet start some sixty, is joined with it.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'

/** Modules of the gateway's threads. */
const threads = [
  'store/sqlite/worker/worker.ts',
  'store/sqlite/worker/reader-worker.ts',
  'http/body-worker.ts',
]
/** The start of a thread from the module beside the one that starts it. */
const threadStart =
  /new Worker\(new URL\(`\.\/([\w-]+)\$\{import\.meta\.url\.slice\(-3\)\}`, import\.meta\.url\)/g

/** Sources find their files beside themselves, also from here, and their threads among the joined files. */
const atHome = (sources: string, outdir: string): Plugin => ({
  name: 'at-home',
  setup({ onLoad }) {
    onLoad({ filter: /\/packages\/.*\/src\/.*\.ts$/ }, ({ path }) => {
      const beside = join(outdir, relative(sources, dirname(path)))
      const contents = readFileSync(path, 'utf8')
        .replace(
          threadStart,
          (_, name) => `new Worker(new URL(${JSON.stringify(pathToFileURL(join(beside, `${name}.js`)))})`,
        )
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
      return { contents, loader: 'ts' }
    })
  },
})

/** Returns the program: it takes the arguments of `sluice`. `fleet-process.js` lies beside it. */
export async function joinGateway(root: string): Promise<string> {
  const sources = join(root, 'packages/gateway/src')
  const source = join(sources, 'main.ts')
  const outdir = join(root, 'node_modules/.cache/joined-gateway')
  const fleetProcess = join(root, 'packages/gateway/test/guarantees/fleet-process.ts')
  await build({
    entryPoints: [
      ...['main.ts', ...threads].map((file) => ({ in: join(sources, file), out: file.replace(/\.ts$/, '') })),
      { in: fleetProcess, out: 'fleet-process' },
    ],
    outdir,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    conditions: ['sluice-source'],
    // Clients that few gateways load, with parts that are there or not.
    external: ['@platformatic/kafka', 'cassandra-driver', 'rabbitmq-client', 'pg-native'],
    plugins: [atHome(sources, outdir)],
    banner: {
      js: `import { createRequire as requireOf } from 'node:module'; const require = requireOf(${JSON.stringify(source)});
const __filename = ${JSON.stringify(source)}, __dirname = ${JSON.stringify(dirname(source))};`,
    },
    logLevel: 'error',
  })
  // Otherwise Node compiles each file first to see that it is a module, 25 ms of a start.
  writeFileSync(join(outdir, 'package.json'), '{ "type": "module" }\n')
  return join(outdir, 'main.js')
}
