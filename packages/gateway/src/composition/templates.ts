/** Composes templates and the unsubscribe links in them. */
import { builtInTemplates, createTemplates } from '../adapters/templates/liquid.ts'
import type { Config } from '../config/config.ts'
import { channelsOf } from '../config/pools.ts'
import { SluiceError } from '../errors.ts'
import { createUnsubscribeLinks, type UnsubscribeLinks } from '../http/unsubscribe.ts'
import { missingTemplates } from '../policy/digest-templates.ts'
import type { Templates } from '../ports.ts'
import {
  createMissingTemplates,
  type MissingTemplates,
  type MissingTemplatesOptions,
} from '../scheduler/missing-templates.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { SecretKeys } from './secret-keys.ts'
import type { Storage } from './storage.ts'

/**
 * Loads the operator's templates before those that ship. Throws INVALID_CONFIG for a file that is no template,
 * and INVALID_POLICY for a digest without one.
 */
export function loadTemplates(config: Pick<Config, 'templates' | 'policy'>): Templates {
  const { templates: own, policy } = config
  const templates = createTemplates({ folders: [...(own === undefined ? [] : [own]), builtInTemplates] })
  const errors = missingTemplates(policy.compiled, templates.has)
  if (errors.length === 0) return templates
  const lines = errors.map(({ path, message }) => `${policy.file}: ${path}: ${message}`)
  throw new SluiceError('INVALID_POLICY', lines.join('\n'), { errors })
}

/** Leaves to other processes what this one cannot render; undefined where no other process has the record. */
export function composeMissingTemplates(
  { config, clock, errorsOf }: RuntimeContext,
  { store, ledger, contents }: Storage,
  own: Pick<MissingTemplatesOptions, 'queue' | 'recover'> & { readonly templates: Templates },
): MissingTemplates | undefined {
  const { templates, queue, recover } = own
  const { tellTemplates, templatesOfOthers } = store
  if (!store.isVersioned || tellTemplates === undefined || templatesOfOthers === undefined) return undefined
  return createMissingTemplates({
    store: { releaseDue: (given) => store.releaseDue(given), tellTemplates, templatesOfOthers },
    ledger,
    queue,
    contents,
    carried: () => templates.carried,
    served: new Set(channelsOf(config.pools)),
    recover,
    clock,
    onError: errorsOf('admission'),
  })
}

/** Creates the unsubscribe links. Without a public address no link works, so no key is made. */
export function createLinks(
  { http: { publicUrl }, unsubscribe }: Config,
  keys: SecretKeys,
): UnsubscribeLinks {
  if (publicUrl === undefined) return createUnsubscribeLinks({ publicUrl, key: '' })
  return createUnsubscribeLinks({ publicUrl, key: unsubscribe.secret ?? keys('unsubscribe') })
}
