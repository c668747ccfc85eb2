/** Reads server-sent events over a real connection, for the tests of streams. */
import assert from 'node:assert/strict'

export interface ReadEvent<Data> {
  readonly id: number
  readonly data: Data
}

/** Opens a stream, and collects its events of one name. */
export async function openEvents<Data>(url: string, name: string, headers: Record<string, string> = {}) {
  const abort = new AbortController()
  const response = await fetch(url, { headers, signal: abort.signal })
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  const chunks = response.body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
  const start = `event: ${name}\n`
  let seen = ''
  return {
    /** Resolves with so many events from the first one on. */
    async events(count: number): Promise<readonly ReadEvent<Data>[]> {
      for (;;) {
        const events = seen
          .split('\n\n')
          .slice(0, -1)
          .filter((event) => event.startsWith(start))
        if (events.length >= count)
          return events.slice(0, count).map((event) => read(event.slice(start.length)))
        const { value, done } = await chunks.next()
        assert.ok(!done, `the stream ended: ${seen}`)
        seen += value
      }
    },
    async ends(): Promise<void> {
      while (!(await chunks.next()).done);
    },
    close: () => abort.abort(),
  }

  function read(event: string): ReadEvent<Data> {
    const [, id, data] = /^id: (\d+)\ndata: (.*)$/.exec(event)!
    return { id: Number(id), data: JSON.parse(data!) as Data }
  }
}
