/** Builds what is published. An old Node reads this file too, and not the TypeScript of build/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./build/main.ts'))
