/** Starts and stops the engines that tests need. An old Node reads this file too, and not the TypeScript of services/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./services/main.ts'))
