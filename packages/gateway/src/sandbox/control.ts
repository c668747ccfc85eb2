/**
 * The control routes of the sandbox, under `/_sandbox`: the calls that arrived, the fullest rolling windows, and
 * changes of the accounts' behaviour. A test or a developer scripts the fake provider here while the gateway runs.
 */
import { parseDuration } from '@sluice/limits'
import { type EmulatorAnswer, json, jsonBody, type SandboxRequest } from '../providers/emulator.ts'
import { checkBehaviour, type SandboxBehaviour } from './behaviour.ts'
import { apnsExample, fcmExample, webPushExample } from './example-keys.ts'
import type { FakeProvider } from './fake-provider.ts'
import { fullestWindow } from './oracle.ts'
import type { SandboxFilter, SandboxMessage, SeenRequest } from './record.ts'

export interface ControlOptions {
  readonly side: FakeProvider<SandboxMessage>
  /** The last requests; emptied together with the calls. */
  readonly seen: SeenRequest[]
}

const place = '/_sandbox'

/** Answers a control request; undefined where the request is for a provider. */
export function createControl({ side, seen }: ControlOptions) {
  const routes: Readonly<Record<string, (request: SandboxRequest) => EmulatorAnswer>> = {
    'GET /': () =>
      json(200, { routes: Object.keys(routes).map((route) => route.replace(' /', ` ${place}/`)) }),
    'GET /calls': ({ query }) => json(200, { items: side.calls(Object.fromEntries(query) as SandboxFilter) }),
    'GET /received': ({ query }) =>
      json(200, { items: side.received(Object.fromEntries(query) as SandboxFilter) }),
    'GET /requests': () => json(200, { items: seen }),
    'GET /credentials': ({ origin }) => {
      const { keyId, teamId, privateKey } = apnsExample
      return json(200, {
        apns: { keyId, teamId, secret: privateKey },
        fcm: { secret: fcmExample.serviceAccount(origin) },
        webpush: { pushToken: webPushExample.subscription(origin) },
      })
    },
    'GET /counters': ({ query }) => json(200, side.counters(query.get('account') ?? undefined)),
    'GET /windows': ({ query }) => {
      const windowMs = parseDuration(query.get('window') ?? '1s')
      const wanted = query.get('account')
      const accounts = side.accounts().filter((id) => wanted === null || id === wanted)
      return json(200, {
        items: accounts.map((account) =>
          fullestWindow(
            account,
            side.calls({ account }).map(({ at }) => at),
            windowMs,
          ),
        ),
      })
    },
    'PUT /behaviour': (request) => {
      const behaviour = jsonBody<SandboxBehaviour>(request)
      if (behaviour === undefined) return json(400, { error: 'a JSON object is expected' })
      side.behave(checkBehaviour(behaviour, 'behaviour'), request.query.get('account') ?? undefined)
      return { status: 204 }
    },
    'DELETE /calls': () => {
      side.clear()
      seen.length = 0
      return { status: 204 }
    },
  }

  return (request: SandboxRequest): EmulatorAnswer | undefined => {
    if (request.path !== place && !request.path.startsWith(`${place}/`)) return undefined
    const route = routes[`${request.method} ${request.path.slice(place.length) || '/'}`]
    if (route === undefined) return json(404, { error: `see GET ${place}` })
    try {
      return route(request)
    } catch (error) {
      return json(400, { error: (error as Error).message })
    }
  }
}
