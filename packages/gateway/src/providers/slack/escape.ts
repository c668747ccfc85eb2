/**
 * Escapes plain text for Slack: without it, `<!channel>` in a recipient's name notifies the whole channel, and
 * `<url|bank>` hides a link. Source: https://docs.slack.dev/messaging/formatting-message-text#escaping
 */
export function escapeSlack(value: unknown): string {
  const text = Array.isArray(value) ? value.join('') : String(value ?? '')
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
