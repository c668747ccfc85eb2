/** Plain text as Slack reads it: without this, `<!channel>` in somebody's name calls everybody, and `<url|bank>` hides a link. */
export function escapeSlack(value: unknown): string {
  const text = Array.isArray(value) ? value.join('') : String(value ?? '')
  // https://docs.slack.dev/messaging/formatting-message-text#escaping
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
