/** This file joins the tables of the suites of express-rate-limit. */
import { fieldCases } from './express-fields.ts'
import { middlewareCases } from './express-middleware.ts'
import { storeCases } from './express-stores.ts'
import type { ExpressWorld } from './express-world.ts'
import type { PeerSuite } from './peer.ts'

export const expressRateLimit: PeerSuite<ExpressWorld> = {
  peer: 'express-rate-limit',
  version: '8.6.2',
  cases: [...middlewareCases, ...fieldCases, ...storeCases],
}
