/** Runs the checks and all tests. An old Node reads this file too, and not the TypeScript of runner/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./runner/main.ts'))
