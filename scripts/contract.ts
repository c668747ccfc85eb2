/** Holds the OpenAPI document against a running gateway. An old Node reads this file too, and not the TypeScript of contract/main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('./contract/main.ts'))
