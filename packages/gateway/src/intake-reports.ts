/** The figures of intakes, for metrics, readiness and the log. */

/** One intake of this process. */
export interface IntakeReport {
  /** The topic that it takes, and the consumer group in which it does. */
  readonly topic: string
  readonly group: string
  /** The instant since which no broker answers, epoch ms; undefined while they do. */
  readonly awaySince: number | undefined
  /** The partitions that this process has. */
  readonly partitions: readonly {
    readonly partition: number
    /** Every record before this offset is done. */
    readonly next: number
    /** Records behind it, as of the last answer. */
    readonly lag: number
    /** A record waits for room, and the partition with it. */
    readonly isPaused: boolean
  }[]
  /** Records that this process has taken since its start, by outcome. */
  readonly counts: Readonly<Record<'accepted' | 'repeated' | 'poison', number>>
}
