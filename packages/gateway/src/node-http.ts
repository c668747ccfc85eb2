/**
 * Node's own HTTP module. An `import` of it reads every name that it exports, `WebSocket` among them, and that loads
 * the whole of Node's client for `fetch`: 14 MB which nothing here uses. `getBuiltinModule` loads it alone.
 */
export const http = process.getBuiltinModule('node:http')
