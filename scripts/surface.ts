/** Compares the public surface with that of another commit. An old Node reads this file too, and not the TypeScript of its main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./surface/main.ts'))
