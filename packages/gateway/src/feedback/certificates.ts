/** Certificates of signatures, fetched once and remembered. Bounded: attackers may name any path of a SNS host. */

export interface CertificatesOptions {
  /** Fetches a text of an address. Rejects where it cannot be had. */
  readonly download: (url: string) => Promise<string>
  readonly clock: { now(): number }
}

/** Certificates that are remembered; Amazon has one a region and exchanges it now and then. */
const knownMax = 32
/** A certificate is fetched again after this time, ms. */
const knownForMs = 86_400_000
/** An address that had none is not asked again for this long, ms. */
const failedForMs = 60_000

interface Known {
  readonly pem: Promise<string>
  until: number
}

export function createCertificates({
  download,
  clock,
}: CertificatesOptions): (url: string) => Promise<string> {
  const known = new Map<string, Known>()
  return (url) => {
    const now = clock.now()
    const found = known.get(url)
    if (found !== undefined && found.until > now) return found.pem
    known.delete(url)
    if (known.size >= knownMax) known.delete(known.keys().next().value!)
    const entry: Known = { pem: download(url), until: now + knownForMs }
    known.set(url, entry)
    entry.pem.catch(() => {
      entry.until = clock.now() + failedForMs
    })
    return entry.pem
  }
}
