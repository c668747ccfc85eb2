/** Tries the packed library on every runtime. An old Node reads this file too, and not the TypeScript of runtimes/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./runtimes/main.ts'))
