/** The members of a gateway that is alone with its store: this process, which does every chore until it stops. */
import type { Members } from '../ports/fleet.ts'
import type { Clock, Random } from '../ports.ts'

export function createOneMember(random: Pick<Random, 'id'>, clock: Pick<Clock, 'now'>): Members {
  let isOpen = true
  return {
    id: random.id(clock.now()),
    count: () => 1,
    holds: () => isOpen,
    // Nobody else has the record.
    onDeath: () => () => {},
    async close() {
      isOpen = false
    },
  }
}
