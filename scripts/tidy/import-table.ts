/**
 * The allowed imports: the table of ARCHITECTURE.md as data. A row speaks for a file, or for everything whose
 * path begins like it; the longest match decides. What has no row may not exist, so that a new part of the
 * program begins with a decision about its place.
 */
export interface ImportRow {
  /** Path from the package's `src/`: `model.ts`, `policy/`; `*` stands for one folder. */
  readonly module: string
  /** The parts of this package that it may use besides its own folder: paths as above, or everything. */
  readonly values: readonly string[] | 'any'
  /** The modules that it may import types from only. */
  readonly types?: readonly string[] | 'any'
  /** Installed packages. @defaultValue none */
  readonly packages?: readonly string[] | 'any'
  /** Installed packages of which it may name types only. @defaultValue none */
  readonly packageTypes?: 'any'
  /** Node's own modules. @defaultValue none */
  readonly node?: readonly string[] | 'any'
  /**
   * True if it may read the clock, use randomness, set timers or read the environment by itself.
   * @defaultValue false: these come in as arguments or through ports
   */
  readonly impure?: true
}

/** The ports and the pure parts that stages and adapters know. */
const common = [
  'ports.ts',
  'ports/',
  'reports.ts',
  'model.ts',
  'bounds.ts',
  'backlog-cell.ts',
  'content.ts',
  'errors.ts',
  'heap.ts',
  'keyed-hash.ts',
] as const

/** The modules that a stage knows. */
const core = [
  ...common,
  'stages.ts',
  'content-digest.ts',
  'conflict.ts',
  'undo.ts',
  'state-generation.ts',
  'awaits-limits.ts',
  'sleeper.ts',
  'policy/',
] as const
const limits = ['@sluice/limits'] as const

/** An adapter knows the ports and its engine or service. */
const adapter = {
  values: [...common, 'node-http.ts', 'thread-environment.ts', 'adapters/'],
  types: ['policy/'],
  packages: 'any',
  node: 'any',
  impure: true,
} as const

/** A stage knows the ports and the pure parts, never another stage's inside, never an adapter. */
const stage = { values: core, packages: limits, node: ['node:crypto'] } as const

const gateway: readonly ImportRow[] = [
  {
    module: 'model.ts',
    values: ['timeline.ts'],
    types: ['content.ts', 'errors.ts', 'ports.ts', 'policy/'],
    packages: limits,
  },
  { module: 'timeline.ts', values: [] },
  { module: 'bounds.ts', values: [], types: ['model.ts'] },
  { module: 'backlog-cell.ts', values: [], types: ['model.ts'] },
  { module: 'content.ts', values: [], node: ['node:buffer'] },
  { module: 'content-digest.ts', values: ['policy/'], node: ['node:crypto'] },
  { module: 'errors.ts', values: [] },
  { module: 'heap.ts', values: [] },
  { module: 'keyed-hash.ts', values: [], node: ['node:crypto'] },
  { module: 'conflict.ts', values: [] },
  { module: 'undo.ts', values: [] },
  { module: 'sleeper.ts', values: ['errors.ts'], types: ['ports.ts'] },
  { module: 'state-generation.ts', values: [], types: ['ports.ts'] },
  { module: 'awaits-limits.ts', values: [], types: ['model.ts'] },
  { module: 'node-http.ts', values: [], impure: true },
  { module: 'thread-environment.ts', values: [], node: ['node:module', 'node:path'], impure: true },
  {
    module: 'ports.ts',
    values: [],
    types: ['model.ts', 'errors.ts', 'policy/', 'ports/', 'conflict.ts', 'backlog-cell.ts'],
    packages: limits,
  },
  { module: 'ports/', values: ['model.ts'], types: ['ports.ts', 'reports.ts'], packages: limits },
  { module: 'reports.ts', values: [], types: ['model.ts'] },
  {
    module: 'stages.ts',
    values: [],
    types: ['model.ts', 'reports.ts', 'ports.ts', 'ports/'],
    packages: limits,
  },
  {
    module: 'policy/',
    values: ['model.ts', 'errors.ts'],
    types: ['ports.ts', 'reports.ts'],
    packages: limits,
  },
  {
    module: 'observability/',
    values: ['errors.ts', 'model.ts'],
    types: ['backlog-cell.ts', 'reports.ts', 'ports.ts', 'ports/', 'stages.ts'],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  { module: 'version.ts', values: [], node: ['node:fs'], impure: true },
  {
    module: 'http/',
    values: ['node-http.ts', 'thread-environment.ts', 'observability/', ...core],
    types: ['feedback/'],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  // A record is read and checked as a request over HTTP is.
  { module: 'intake/', values: ['http/', ...core], packages: ['@sinclair/typebox'] },
  { module: 'intake/kafka/', values: ['intake/', ...core], packages: 'any', node: 'any', impure: true },
  { module: 'admission/', ...stage },
  { module: 'feedback/', ...stage },
  { module: 'scheduler/', ...stage },
  { module: 'delivery/', ...stage },
  { module: 'ledger/', ...stage },
  {
    module: 'config/',
    values: [
      'delivery/accounts/breaker.ts',
      'delivery/retry-policy.ts',
      'observability/log-events.ts',
      'providers/configs.ts',
      'providers/provider-config.ts',
      'providers/*/config.ts',
      ...core,
    ],
    types: ['http/websocket/upgrade.ts'],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  {
    module: 'adapters/',
    ...adapter,
    values: [...adapter.values, 'providers/slack/escape.ts', 'providers/webhook/signature.ts'],
  },
  { module: 'queue/', ...adapter },
  { module: 'store/', ...adapter },
  // A provider is one folder: its adapter, what the configuration knows of it, and what the sandbox plays of it.
  { module: 'providers/', ...adapter, values: [...adapter.values, 'sandbox/'] },
  ...['providers/configs.ts', 'providers/provider-config.ts', 'providers/*/config.ts'].map((module) => ({
    module,
    values: ['config/', 'providers/provider-config.ts', 'providers/*/config.ts', ...core],
    packages: 'any' as const,
    node: 'any' as const,
  })),
  ...[
    'providers/emulated-jwt.ts',
    'providers/emulator.ts',
    'providers/emulators.ts',
    'providers/*/emulator.ts',
  ].map((module) => ({
    module,
    values: [
      'model.ts',
      'sandbox/',
      'providers/emulator.ts',
      'providers/*/emulator.ts',
      'providers/emulated-jwt.ts',
    ],
    types: ['ports.ts'],
    packages: 'any' as const,
    node: 'any' as const,
    impure: true as const,
  })),
  {
    module: 'sandbox/',
    values: ['model.ts', 'providers/emulator.ts', 'providers/emulators.ts', 'providers/*/emulator.ts'],
    types: ['ports.ts'],
    packages: limits,
    node: 'any',
    impure: true,
  },
  {
    module: 'log.ts',
    values: ['observability/', 'version.ts'],
    types: ['config/'],
    packages: ['pino'],
    node: 'any',
    impure: true,
  },
  {
    module: 'gateway.ts',
    values: ['composition/', 'config/', 'ledger/', 'scheduler/', ...core],
    types: ['log.ts', 'adapters/', 'feedback/', 'providers/', 'store/'],
  },
  // Its importer knows every adapter: gateway.ts alone.
  {
    module: 'composition/',
    values: [
      'adapters/',
      'admission/',
      'config/',
      'delivery/',
      'feedback/',
      'http/',
      'intake/',
      'ledger/',
      'log.ts',
      'observability/',
      'providers/',
      'queue/',
      'replay/replays.ts',
      'scheduler/',
      'store/',
      'version.ts',
      ...core,
    ],
  },
  { module: 'index.ts', values: 'any', packages: limits },
  {
    module: 'main.ts',
    values: ['cli/', 'config/', 'gateway.ts', 'errors.ts', 'version.ts'],
    node: 'any',
    impure: true,
  },
  {
    module: 'cli/',
    values: [
      'gateway.ts',
      'replay/',
      'simulation/',
      'advice/',
      'sandbox/',
      'config/',
      'log.ts',
      'version.ts',
      ...core,
    ],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  { module: 'report/', values: [] },
  {
    module: 'advice/',
    values: ['errors.ts', 'report/'],
    types: ['model.ts', 'ports/'],
  },
  {
    module: 'simulation/',
    values: [
      'gateway.ts',
      'config/',
      'advice/',
      'report/',
      'providers/provider-config.ts',
      'providers/*/config.ts',
      'sandbox/',
      ...core,
    ],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  {
    module: 'replay/',
    values: ['gateway.ts', 'config/', 'simulation/', 'admission/duplicates.ts', ...core],
    types: ['http/'],
    packages: 'any',
    node: 'any',
    impure: true,
  },
  { module: 'conformance/', values: core, packages: limits, node: 'any', impure: true },
]

const library: readonly ImportRow[] = [
  { module: '', values: [''] },
  { module: 'index.ts', values: 'any' },
  { module: 'limits.ts', values: ['', 'stores/'] },
  { module: 'token-bucket.ts', values: ['', 'stores/'] },
  { module: 'stores/', values: [''], impure: true },
  { module: 'stores/redis', values: ['', 'stores/'], node: 'any', impure: true },
  {
    module: 'middleware/',
    values: ['', 'index.ts', 'limits.ts', 'stores/'],
    packageTypes: 'any',
    impure: true,
  },
]

const suite: readonly ImportRow[] = [
  { module: '', values: [''], packages: limits, node: 'any', impure: true },
]

/** Rows by package folder. A module of `''` is every file that lies in `src/` itself. */
export const importTable: Readonly<Record<string, readonly ImportRow[]>> = {
  'packages/gateway': gateway,
  'packages/limits': library,
  'packages/limits-conformance': suite,
}

export function rowFor(rows: readonly ImportRow[], path: string): ImportRow | undefined {
  const fitting = rows.filter(({ module }) => covers(module, path))
  return fitting.sort((a, b) => b.module.length - a.module.length)[0]
}

export function covers(module: string, path: string): boolean {
  if (module === '') return !path.includes('/')
  if (module.includes('*'))
    return new RegExp(`^${module.replaceAll('.', '\\.').replace('*', '[^/]+')}$`).test(path)
  return module === path || (!module.endsWith('.ts') && path.startsWith(module))
}
