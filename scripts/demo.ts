/** Shows the product on real engines. An old Node reads this file too, and not the TypeScript of its main.ts: see launch.mjs. */
import('./launch.mjs').then(({ launch }) => launch('../packages/gateway/test/demo/main.ts'))
