/** Runs the test files of its arguments in this process. A file that breaks while it is loaded is a test that fails. */
import { test } from 'node:test'

// All at once: where tests end before a file is loaded, Node's runner no longer keeps the process alive for the next.
await Promise.all(
  process.argv.slice(2).map((file) =>
    import(file).catch((error: unknown) => {
      test(file, () => {
        throw error
      })
    }),
  ),
)
