/**
 * The undo list of one try. Whatever the try takes before its commit (a place in a throttle queue, a reservation, a
 * fingerprint, an open digest, room in a queue) is entered here with the step that releases it. The steps run, the last
 * one first, unless the commit was applied.
 */

/** Releases what was taken. It may find that nothing was taken, where the taking itself failed. */
type Release = () => void | Promise<void>

export interface UndoList {
  /** Enters the release of something that is taken now. It runs unless `keep` is called. */
  add(release: Release): void
  /** Enters the release of something that is needed only until the end of the try. It runs in any case. */
  always(release: Release): void
  /** The commit was applied: everything entered by `add` so far is kept. */
  keep(): void
}

/** Reports a release that failed; the others run all the same. */
type OnUndoError = (what: string, error: unknown) => void

interface Entry {
  readonly release: Release
  readonly always: boolean
}

class Undo implements UndoList {
  /** As many as the steps of a try, not as the notifications in it. */
  #entries: Entry[] = []

  add(release: Release): void {
    this.#entries.push({ release, always: false })
  }

  always(release: Release): void {
    this.#entries.push({ release, always: true })
  }

  keep(): void {
    this.#entries = this.#entries.filter(({ always }) => always)
  }

  /** Runs the releases in reverse order, and waits for each: a later one may depend on what an earlier one took. */
  async run(onError: OnUndoError): Promise<void> {
    for (let entry = this.#entries.pop(); entry !== undefined; entry = this.#entries.pop()) {
      try {
        const released = entry.release()
        if (released !== undefined) await released
      } catch (error) {
        onError('release what a try had taken', error)
      }
    }
  }
}

/** Runs the work with an undo list, and runs the list at its end, whether it returns or throws. */
export async function withUndo<T>(onError: OnUndoError, work: (undo: UndoList) => Promise<T>): Promise<T> {
  const undo = new Undo()
  try {
    return await work(undo)
  } finally {
    await undo.run(onError)
  }
}
