/** Holds the files against the rules of the structure. An old Node reads this file too, and not the TypeScript of tidy/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./tidy/main.ts'))
