/**
 * Preloaded into the process of each group of test files. Node's test runner follows every promise with `async_hooks`, to
 * say to which test an error belongs that nothing caught. That cost 10 to 35 % of the CPU of tests in virtual time
 * (hold-refusals 13 → 8.3 s). Here it follows tests and suites only, which is how it knows what is inside of what; such
 * an error is one of the file. A hook that only passes promises over still is called for each: an await of an async
 * function took 620 ns with one, and takes 180 without. A thread of a store has no tests, and would take 30 ms to load
 * the test runner.
 */
import { createRequire } from 'node:module'
import { isMainThread } from 'node:worker_threads'

if (isMainThread) await followTestsOnly()

async function followTestsOnly(): Promise<void> {
  const hooks = createRequire(import.meta.url)('node:async_hooks') as typeof import('node:async_hooks')
  const { createHook } = hooks
  hooks.createHook = ({ init }) =>
    createHook({
      init(id, type, trigger, resource) {
        if (type === 'Test' || type === 'Suite') init?.(id, type, trigger, resource)
      },
      trackPromises: false,
    })
  // It takes the function while it is loaded, otherwise the first time that a test file imports it.
  await import('node:test')
  hooks.createHook = createHook
}
