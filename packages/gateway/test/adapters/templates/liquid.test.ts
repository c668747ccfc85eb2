import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import {
  builtInTemplates,
  createTemplates,
  type TemplatesOptions,
} from '../../../src/adapters/templates/liquid.ts'
import { SluiceError } from '../../../src/errors.ts'
import { type Channel, channels, type JsonObject } from '../../../src/model.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-templates-'))
after(() => rmSync(root, { recursive: true }))
let folders = 0

/** A folder with these files: `name/part.liquid` → source. */
function folder(files: Readonly<Record<string, string>>): string {
  folders += 1
  const path = join(root, String(folders))
  mkdirSync(path)
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true })
    writeFileSync(join(path, name), source)
  }
  return path
}

function templates(files: Readonly<Record<string, string>>, options: Partial<TemplatesOptions> = {}) {
  return createTemplates({ folders: [folder(files)], ...options })
}

function locals(data: JsonObject = {}): JsonObject {
  return { recipient: { id: 'user-1' }, data, category: 'product', tenant: 'acme', notificationId: '01ABC' }
}

const isCode =
  (code: string, ...words: readonly string[]) =>
  (error: unknown) => {
    assert.ok(error instanceof SluiceError && error.code === code, String(error))
    for (const word of words) assert.ok(error.message.includes(word), `${word} is not in: ${error.message}`)
    return true
  }

test('a channel gets its own parts, and the common text for the others', () => {
  const { render, has } = templates({
    'hi/email.subject.liquid': 'Hi {{ recipient.id }}',
    'hi/email.html.liquid': '<p>{{ data.a }}</p>',
    'hi/push.title.liquid': 'Title',
    'hi/text.liquid': 'text {{ data.a }}\n',
    'hi/sms.text.liquid': 'sms {{ data.a }}',
  })
  assert.deepEqual([has('hi'), has('ho')], [true, false])
  assert.deepEqual(render('hi', 'email', locals({ a: 1 })), {
    subject: 'Hi user-1',
    text: 'text 1',
    html: '<p>1</p>',
  })
  assert.deepEqual(render('hi', 'push', locals({ a: 1 })), { title: 'Title', text: 'text 1' })
  assert.deepEqual(render('hi', 'sms', locals({ a: 1 })), { text: 'sms 1' })
  for (const channel of ['slack', 'telegram', 'webhook', 'websocket'] as const) {
    assert.deepEqual(render('hi', channel, locals({ a: 1 })), { text: 'text 1' })
  }
})

test('HTML is escaped, also in partials and after a text was rendered; text is not', () => {
  const { render } = templates({
    '_part.liquid': '{{ value }}',
    'x/text.liquid': '{{ data.a }}{% render "_part", value: data.a %}',
    'x/email.html.liquid':
      '{{ data.a }}{% render "_part", value: data.a %}{{ data.none | default: data.a }}{% for each in data.l %}{{ each }}{% endfor %}{{ data.a | raw }}',
  })
  const a = `<b>&"'`
  const escaped = '&lt;b&gt;&amp;&#34;&#39;'
  for (let round = 0; round < 2; round += 1) {
    const { text, html } = render('x', 'email', locals({ a, l: [a] }))
    assert.equal(text, a + a)
    assert.equal(html, escaped.repeat(4) + a)
  }
})

test('a subject and a title are one line, whatever their variables hold', () => {
  const { render } = templates({
    'x/subject.liquid': 'Hi\n{{ data.a }}',
    'x/title.liquid': '{{ data.a }}',
    'x/text.liquid': '{{ data.a }}',
  })
  for (const end of ['\r\n', '\n', '\r', '\u2028', '\u2029', '\u0085', '\u000b', '\0']) {
    const data = { a: `one${end}Bcc: x@y.example` }
    assert.equal(render('x', 'email', locals(data)).subject, 'Hi one Bcc: x@y.example')
    assert.equal(render('x', 'push', locals(data)).title, 'one Bcc: x@y.example')
  }
})

test('a missing variable is empty, at any depth', () => {
  const { render } = templates({
    'x/text.liquid': '[{{ data.a.b.c }}{{ nothing }}{% if data.x %}x{% endif %}]',
  })
  assert.equal(render('x', 'sms', locals()).text, '[]')
})

test('application data is found under `data` only', () => {
  const { render } = templates({ 'x/text.liquid': '{{ tenant }}{{ a }}{{ data.tenant }}' })
  assert.equal(render('x', 'sms', locals({ a: 'a', tenant: 'evil' })).text, 'acmeevil')
})

test('no variable reaches inherited properties', () => {
  const { render } = templates({
    'x/text.liquid':
      '[{{ data.constructor }}{{ data.__proto__ }}{{ data.toString }}{{ recipient.constructor.name }}{{ data.s.constructor }}]',
  })
  assert.equal(render('x', 'sms', locals({ s: 'text' })).text, '[]')
})

test('a template of an earlier folder replaces all parts of a later one', () => {
  const mine = folder({ 'hi/text.liquid': 'mine' })
  const theirs = folder({
    'hi/text.liquid': 'theirs',
    'hi/email.subject.liquid': 'theirs',
    'ho/text.liquid': 'ho',
  })
  const { render, names } = createTemplates({ folders: [mine, theirs] })
  assert.deepEqual(names, ['hi', 'ho'])
  assert.deepEqual(render('hi', 'email', locals()), { text: 'mine' })
})

test('a rendering error names the template, the channel and the part', () => {
  const { render } = templates({
    'hi/email.html.liquid': 'h',
    'bad/text.liquid': 'a\n{% render "_missing" %}',
  })
  assert.throws(() => render('ho', 'sms', locals()), isCode('INVALID_REQUEST', '"ho"'))
  assert.throws(() => render('hi', 'sms', locals()), isCode('INVALID_REQUEST', 'hi', 'sms'))
  assert.throws(() => render('bad', 'sms', locals()), isCode('INVALID_REQUEST', 'bad', 'text'))
})

const faults: readonly (readonly [string, Readonly<Record<string, string>>, readonly string[]])[] = [
  ['a tag that is not closed', { 'x/text.liquid': 'one\ntwo {% if data.a %}\n' }, ['x/text.liquid:2']],
  ['an unknown filter', { 'x/text.liquid': 'one\n\n{{ data.a | shout }}' }, ['x/text.liquid:3', 'shout']],
  ['an unknown tag', { 'x/sms.text.liquid': '{% shell "ls" %}' }, ['x/sms.text.liquid:1', 'shell']],
  ['a broken partial', { '_part.liquid': 'one\n{{ a', 'x/text.liquid': 'x' }, ['_part.liquid:2']],
  ['a part that nobody has', { 'x/email.body.liquid': 'x' }, ['x/email.body.liquid']],
  ['a part that the channel has not', { 'x/sms.html.liquid': 'x' }, ['x/sms.html.liquid', 'sms']],
  ['a channel that nobody has', { 'x/fax.text.liquid': 'x' }, ['x/fax.text.liquid']],
  ['no part at all', { 'x/readme.md': 'x' }, ['x']],
]
for (const [what, files, words] of faults) {
  test(`a template with ${what} is refused at start, by file and line`, () => {
    assert.throws(() => templates(files), isCode('INVALID_CONFIG', ...words))
  })
}

test('a missing template folder is refused at start', () => {
  assert.throws(
    () => createTemplates({ folders: [join(root, 'nowhere')] }),
    isCode('INVALID_CONFIG', 'nowhere'),
  )
})

test('no template reads a file', () => {
  writeFileSync(join(root, 'secret.liquid'), 'canary')
  for (const name of ['../secret', '../secret.liquid', join(root, 'secret.liquid'), './_none', 'x/text']) {
    for (const tag of ['render', 'include', 'layout']) {
      const { render } = templates({
        'x/text.liquid': `{% ${tag} data.name %}`,
        'y/text.liquid': `{% ${tag} "${name}" %}`,
      })
      for (const template of ['x', 'y']) {
        assert.throws(() => render(template, 'sms', locals({ name })), isCode('INVALID_REQUEST', template))
      }
    }
  }
})

test('a symbolic link to a folder is not a template', () => {
  const path = folder({ 'x/text.liquid': 'x' })
  symlinkSync(dirname(path), join(path, 'linked'))
  assert.deepEqual(createTemplates({ folders: [path] }).names, ['x'])
})

const greedy: readonly (readonly [string, string])[] = [
  ['loops for ever', '{% for i in (1..1000000) %}{% for j in (1..1000000) %}{% endfor %}{% endfor %}'],
  [
    'doubles a text for ever',
    '{% assign a = "x" %}{% for i in (1..60) %}{% assign a = a | append: a %}{% endfor %}{{ a }}',
  ],
  ['makes a huge list', '{% assign a = (1..900000000) %}{{ a | join: "," }}'],
  ['renders itself', '{% render "_self" %}'],
]
for (const [what, source] of greedy) {
  test(`a template that ${what} is stopped`, () => {
    const files = { 'x/text.liquid': source, '_self.liquid': '{% render "_self" %}' }
    const { render } = templates(files, { renderMsMax: 100, memoryMax: 2_000_000 })
    const began = performance.now()
    assert.throws(() => render('x', 'sms', locals()), isCode('INVALID_REQUEST', 'x'))
    assert.ok(performance.now() - began < 5_000)
  })
}

test('a rendered text has a maximum size', () => {
  const { render } = templates({ 'x/text.liquid': '{{ data.a }}' }, { outputMax: 100 })
  assert.throws(() => render('x', 'sms', locals({ a: 'x'.repeat(101) })), isCode('INVALID_REQUEST', '100'))
})

test('every built-in template renders for every channel, with data and without', () => {
  const { render, names } = createTemplates({ folders: [builtInTemplates] })
  assert.deepEqual(names, [
    'activity-digest',
    'follower-digest',
    'new-comment',
    'new-follower',
    'notification',
    'one-time-code',
  ])
  for (const name of names) {
    for (const channel of channels) {
      for (const data of [
        {},
        { post: 'Post', comment: 'Words', code: '123456', items: [], totalCount: 0, hasMore: false },
      ]) {
        const content = render(name, channel, locals(data))
        assert.ok(content.text !== undefined && content.text !== '', `${name} ${channel}`)
        assert.equal(content.subject !== undefined, channel === 'email', `${name} ${channel}`)
        assert.doesNotMatch(JSON.stringify(content), /\{\{|\{%|\[object|undefined|NaN/)
      }
    }
  }
})

const items = Array.from({ length: 100 }, (_, index) => ({
  notificationId: `01ITEM${index}`,
  template: index % 2 === 0 ? 'new-comment' : 'new-follower',
  at: '2026-11-21T12:00:00.000Z',
  ...(index % 5 === 4 ? {} : { actor: `author-${index}` }),
  ...(index % 5 === 3
    ? {}
    : { data: { post: `Post <${index}>`, comment: `comment\nnumber ${index}`, n: index } }),
  ...(index % 7 === 6 ? { content: { subject: `subject ${index}`, text: `content ${index}` } } : {}),
})) satisfies JsonObject[]

for (const template of ['activity-digest', 'follower-digest']) {
  for (const channel of ['email', 'push', 'slack'] as const satisfies Channel[]) {
    test(`${template} shows every item of a digest, each on one line (${channel})`, () => {
      const { render } = createTemplates({ folders: [builtInTemplates] })
      const content = render(template, channel, locals({ items, totalCount: 130, hasMore: true }))
      for (const [part, text] of Object.entries(content)) {
        if (part === 'subject' || part === 'title') {
          assert.match(text, /130/)
          continue
        }
        const lines = text
          .split('\n')
          .filter((line: string) => line.startsWith('- ') || line.startsWith('<li>'))
        assert.equal(lines.length, items.length)
        for (const [index, item] of items.entries()) {
          const line = lines[index]!
          if (item.actor !== undefined) assert.ok(line.includes(item.actor), line)
          if (item.content !== undefined)
            assert.ok(line.includes(item.content.text) && line.includes(item.content.subject), line)
          else if (item.data !== undefined)
            assert.ok(
              line.includes(`number ${index}`) &&
                line.includes(part === 'html' ? `&lt;${index}&gt;` : `<${index}>`),
              line,
            )
        }
        assert.match(text, /30 more/)
      }
    })
  }
}

test('a digest of the longest items stays small enough for a mail', () => {
  const { render } = createTemplates({ folders: [builtInTemplates] })
  const data = {
    ...Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`key${index}`, '<"&\n'.repeat(30)])),
  }
  const long = Array.from({ length: 100 }, (_, index) => ({
    actor: `author-${index}`,
    data,
    content: undefined,
  }))
  const digest = { items: long as unknown as JsonObject[], totalCount: 100, hasMore: false }
  const content = render('activity-digest', 'email', locals(digest))
  for (const { actor } of long) assert.ok(content.text!.includes(actor) && content.html!.includes(actor))
  const huge = render(
    'activity-digest',
    'email',
    locals({ ...digest, items: [{ data: { text: 'x'.repeat(60_000) } }] }),
  )
  assert.ok(huge.text!.length < 1_000)
})

test('a template shows the unsubscribe address where there is one', () => {
  const { render, names } = createTemplates({ folders: [builtInTemplates] })
  const unsubscribeUrl = 'https://notify.example/u/a?b=c&d'
  for (const name of names.filter((each) => each !== 'one-time-code')) {
    const content = render(name, 'email', { ...locals({ items: [], text: 't' }), unsubscribeUrl })
    assert.ok(content.text!.includes(unsubscribeUrl), name)
    assert.ok(content.html!.includes('href="https://notify.example/u/a?b=c&amp;d"'), name)
  }
})

test('a part in mrkdwn keeps its markup, and escapes markup in data', () => {
  const { render, hasSubject } = templates({
    'hi/text.liquid': 'plain {{ data.name }}',
    'hi/slack.mrkdwn.liquid': '<https://shop.example|*Shop*> {{ data.name }} {{ data.n }} {% render "_x" %}',
    'only/mrkdwn.liquid': '*{{ data.list }}*',
    '_x.liquid': '{{ 1 }}&',
  })
  const name = '<!channel> & <https://evil.example|bank>'
  assert.deepEqual(render('hi', 'slack', locals({ name, n: 3 })), {
    text: `plain ${name}`,
    mrkdwn: '<https://shop.example|*Shop*> &lt;!channel&gt; &amp; &lt;https://evil.example|bank&gt; 3 1&',
  })
  assert.deepEqual(render('only', 'slack', locals({ list: ['<a>', 'b'] })), { mrkdwn: '*&lt;a&gt;b*' })
  assert.deepEqual(render('hi', 'telegram', locals({ name })), { text: `plain ${name}` })
  assert.equal(hasSubject('hi', 'email'), false)
  assert.throws(
    () => templates({ 'hi/email.mrkdwn.liquid': 'x' }),
    isCode('INVALID_CONFIG', 'a part that email does not have'),
  )
})
