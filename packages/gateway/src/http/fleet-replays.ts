/**
 * Replays over all processes of a fleet. Each process makes its own and keeps their results in its memory; a process that
 * is asked for another one's replay asks the others. A process that dies takes its replays with it.
 */
import { SluiceError } from '../errors.ts'
import type { Peers } from '../ports/fleet.ts'
import type { ReplayReport, Replays } from './routes/replays.ts'

export function createFleetReplays(own: Replays, peers: Pick<Peers, 'ask' | 'answer'>): Replays {
  peers.answer('replay', async (id) => (await own.find(id as string)) ?? null)
  peers.answer('replayRemoved', (id) => own.remove(id as string))

  /**
   * Asks the others. Throws STATE_UNAVAILABLE where none of them has the replay and one has not answered: the one that is
   * silent may have it.
   */
  async function askOthers<T>(topic: string, id: string, isFound: (answer: unknown) => answer is T) {
    const { answers, silent } = await peers.ask(topic, id, { isEnough: isFound })
    const found = [...answers.values()].find(isFound)
    if (found === undefined && silent.length > 0)
      throw new SluiceError(
        'STATE_UNAVAILABLE',
        'Another gateway may have this replay, and has not answered. Ask again.',
      )
    return found
  }

  return {
    start: own.start,
    find: async (id) =>
      (await own.find(id)) ?? askOthers('replay', id, (answer): answer is ReplayReport => answer !== null),
    remove: async (id) =>
      (await own.remove(id)) ||
      (await askOthers('replayRemoved', id, (answer): answer is true => answer === true)) === true,
    close: own.close,
  }
}
