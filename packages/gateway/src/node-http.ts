/**
 * Node's own HTTP. An `import` of it reads every name that it exports, `WebSocket` among them, and that loads the whole
 * of Node's client for `fetch`: 14 MB which nothing here uses. Asked for like this it comes alone.
 */
export const http = process.getBuiltinModule('node:http')
