/**
 * Translates a script of Redis, Lua 5.1, to a function of JavaScript, as far as our scripts use the language: without
 * metatables, methods and varargs. Lua that it does not know is refused. Locals become variables with names of their own;
 * a call whose answer may be several values is spread only where Lua spreads it.
 */
import { compileFunction } from 'node:vm'
import { parse } from 'luaparse'
import { library, single } from './lua-library.ts'
import { type Names, namesOf, type Variable } from './lua-names.ts'
import type { Node } from './lua-syntax.ts'
import * as values from './lua-values.ts'

/** Commands of Redis as a script calls them, by their names. */
export type Commands = Readonly<Record<string, (...args: values.LuaValue[]) => values.LuaValue>>
/** A script: runs over these commands, with its keys and arguments. */
export type Translated = (
  commands: Commands,
  keys: values.LuaTable,
  args: values.LuaTable,
) => values.LuaResult

/** @throws {Error} for Lua of a kind that our scripts do not use */
export function translate(script: string): Translated {
  // Bytes of a script stand for themselves.
  const bytes = Buffer.from(script).toString('latin1')
  const chunk = parse(bytes, { luaVersion: '5.1', encodingMode: 'pseudo-latin1', comments: false })
  const source = createTranslator(namesOf(chunk as Node)).functionBody((chunk as Node).body!)
  const run = compileFunction(`'use strict'\n${source}`, ['$', '$lib', '$redis', 'KEYS', 'ARGV'], {
    filename: 'script.lua.js',
  })
  return (commands, keys, args) => run(operators, library, commands, keys, args)
}

const operators = { ...values }

const arithmetic: Readonly<Record<string, string>> = { '+': '+', '-': '-', '*': '*', '/': '/', '^': '**' }
const comparisons: Readonly<Record<string, string>> = {
  '<': 'less',
  '<=': 'lessOrEqual',
  '>': 'greater',
  '>=': 'greaterOrEqual',
}

function refuse(node: Node): never {
  throw new Error(`Lua of this kind is not translated: ${node.type} ${node.name ?? node.raw ?? ''}`)
}

function createTranslator({ variableOf }: Names) {
  let temporaries: string[] = []
  let made = 0

  function temporary(): string {
    made += 1
    temporaries.push(`$t${made}`)
    return `$t${made}`
  }

  function fresh(): string {
    made += 1
    return `$v${made}`
  }

  /** The path of a global function, as `math.floor`, that an expression means. */
  function globalOf(node: Node): string | undefined {
    if (node.type === 'Identifier') {
      const variable = variableOf(node)
      if (variable === undefined) return node.name
      return variable.isAssigned || variable.value === undefined ? undefined : globalOf(variable.value)
    }
    if (node.type !== 'MemberExpression' || node.base!.type !== 'Identifier') return undefined
    if (variableOf(node.base!) !== undefined) return undefined
    const { name } = node.identifier!
    return node.base!.name === '_G' ? name : `${node.base!.name}.${name}`
  }

  /** True where a function of the script answers one value at most. */
  function isSingle(of: Variable | undefined): boolean {
    if (of?.value?.type !== 'FunctionDeclaration' || of.isAssigned) return false
    return answersOne(of.value.body!)
  }
  const known = new Map<readonly Node[], boolean>()
  function answersOne(body: readonly Node[]): boolean {
    const before = known.get(body)
    if (before !== undefined) return before
    known.set(body, false)
    const isOne = returnsOf(body).every(({ arguments: answers }) => {
      const list = answers as readonly Node[]
      return list.length === 0 || (list.length === 1 && !isMany(list[0]!))
    })
    known.set(body, isOne)
    return isOne
  }
  function returnsOf(body: readonly Node[]): Node[] {
    return body.flatMap((node) => {
      if (node.type === 'ReturnStatement') return [node]
      if (node.clauses) return node.clauses.flatMap((clause) => returnsOf(clause.body!))
      return node.type === 'FunctionDeclaration' || node.body === undefined ? [] : returnsOf(node.body)
    })
  }

  /** True for an expression that may have several values. */
  function isMany(node: Node): boolean {
    if (node.inParens || !node.type.endsWith('CallExpression')) return false
    const path = globalOf(node.base!)
    if (path === 'string.byte') return argumentsOf(node).length > 2
    if (path !== undefined) return !(path === 'redis.call' || path === 'redis.pcall' || single.has(path))
    return node.base!.type !== 'Identifier' || !isSingle(variableOf(node.base!))
  }

  function isNumber(node: Node): boolean {
    if (node.type === 'NumericLiteral') return true
    if (node.type === 'UnaryExpression') return node.operator === '#' || node.operator === '-'
    if (node.type === 'BinaryExpression') return node.operator === '%' || node.operator! in arithmetic
    return node.type === 'CallExpression' && (globalOf(node.base!) ?? '').startsWith('math.')
  }

  function isBoolean(node: Node): boolean {
    if (node.type === 'BooleanLiteral') return true
    if (node.type === 'UnaryExpression') return node.operator === 'not'
    if (node.type !== 'BinaryExpression') return false
    return node.operator! in comparisons || node.operator === '==' || node.operator === '~='
  }

  const number = (node: Node): string => (isNumber(node) ? value(node) : `$.num(${value(node)})`)
  const text = (node: Node): string =>
    node.type === 'StringLiteral' ? value(node) : `$.text(${value(node)})`

  /** A condition: an expression that is true or false in JavaScript. */
  function condition(node: Node): string {
    if (isBoolean(node)) return value(node)
    if (node.type === 'LogicalExpression')
      return `(${condition(node.left!)} ${node.operator === 'and' ? '&&' : '||'} ${condition(node.right!)})`
    const own = node.type === 'Identifier' ? value(node) : temporary()
    const first = node.type === 'Identifier' ? own : `(${own} = ${value(node)})`
    return `(${first} !== undefined && ${own} !== false)`
  }

  function argumentsOf(node: Node): readonly Node[] {
    if (node.type === 'StringCallExpression') return [node.argument!]
    return Array.isArray(node.arguments) ? node.arguments : [node.arguments as Node]
  }

  /** Expressions side by side, of which the last one may have several values. */
  function list(nodes: readonly Node[]): string {
    return nodes
      .map((node, index) =>
        index === nodes.length - 1 && isMany(node) ? `...$.all(${call(node)})` : value(node),
      )
      .join(', ')
  }

  function call(node: Node): string {
    const given = argumentsOf(node)
    const path = globalOf(node.base!)
    if (path === 'redis.call' || path === 'redis.pcall') {
      const [command, ...rest] = given
      if (command?.type !== 'StringLiteral') return refuse(node)
      const asked = `$redis.${command.value}(${list(rest)})`
      return path === 'redis.call' ? asked : `$lib['redis.pcall'](() => ${asked})`
    }
    if (path === undefined) return `${value(node.base!)}(${list(given)})`
    if (!(path in library)) return refuse(node.base!)
    return `$lib['${path}'](${list(given)})`
  }

  /** An expression with one value. */
  function value(node: Node): string {
    switch (node.type) {
      case 'NilLiteral':
        return 'undefined'
      case 'NumericLiteral':
      case 'BooleanLiteral':
        return String(node.value)
      case 'StringLiteral':
        return JSON.stringify(node.value)
      case 'Identifier':
        return nameOf(node)
      case 'MemberExpression': {
        const path = globalOf(node)
        if (path !== undefined && path in library) return `$lib['${path}']`
        if (path === 'redis.call') return 'undefined'
        return `$.field(${value(node.base!)}, ${JSON.stringify(node.identifier!.name)})`
      }
      case 'IndexExpression': {
        const { base, index } = node as Required<Node>
        return `$.${index.type === 'StringLiteral' ? 'field' : 'get'}(${value(base)}, ${value(index)})`
      }
      case 'FunctionDeclaration':
        return `(${functionOf(node)})`
      case 'TableConstructorExpression':
        return tableOf(node)
      case 'UnaryExpression':
        if (node.operator === 'not') return `!${condition(node.argument!)}`
        return node.operator === '#' ? `$.length(${value(node.argument!)})` : `(-${number(node.argument!)})`
      case 'LogicalExpression': {
        const own = temporary()
        const isTrue = `((${own} = ${value(node.left!)}) !== undefined && ${own} !== false)`
        const other = value(node.right!)
        return node.operator === 'and' ? `(${isTrue} ? ${other} : ${own})` : `(${isTrue} ? ${own} : ${other})`
      }
      case 'BinaryExpression':
        return operation(node)
      case 'CallExpression':
      case 'StringCallExpression':
      case 'TableCallExpression': {
        if (globalOf(node.base!) === 'struct.unpack') return `$lib['unpack one'](${list(argumentsOf(node))})`
        return isMany({ ...node, inParens: false }) ? `$.one(${call(node)})` : call(node)
      }
      default:
        return refuse(node)
    }
  }

  function nameOf(node: Node): string {
    const variable = variableOf(node)
    if (variable !== undefined) return variable.name
    const { name = '' } = node
    return name === 'KEYS' || name === 'ARGV' ? name : name in library ? `$lib['${name}']` : refuse(node)
  }

  function operation(node: Node): string {
    const { left, right, operator } = node as Required<Node>
    if (operator === '==' || operator === '~=')
      return `(${value(left)} ${operator === '==' ? '===' : '!=='} ${value(right)})`
    if (operator === '..') return `(${text(left)} + ${text(right)})`
    if (operator === '%') return `$.mod(${number(left)}, ${number(right)})`
    const arithmetical = arithmetic[operator]
    if (arithmetical !== undefined) return `(${number(left)} ${arithmetical} ${number(right)})`
    const side = (of: Node): string => (isNumber(of) ? value(of) : `$.compared(${value(of)})`)
    if (isNumber(left) || isNumber(right)) return `(${side(left)} ${operator} ${side(right)})`
    return `$.${comparisons[operator] ?? refuse(node)}(${value(left)}, ${value(right)})`
  }

  function tableOf(node: Node): string {
    const fields = node.fields!
    const listed = fields.filter(({ type }) => type === 'TableValue').map((each) => each.value as Node)
    const others = fields
      .filter(({ type }) => type !== 'TableValue')
      .map(({ type, key, value: of }) => {
        const name = type === 'TableKeyString' ? JSON.stringify(key!.name) : value(key!)
        return `${name}, ${value(of as Node)}`
      })
    return `$.table([${list(listed)}], [${others.join(', ')}])`
  }

  function functionOf(node: Node): string {
    const name = node.isLocal ? variableOf(node.identifier!)!.name : ''
    if (!node.isLocal && node.identifier) refuse(node)
    const parameters = node.parameters!.map((each) => variableOf(each)?.name ?? refuse(each))
    return `function ${name}(${parameters.join(', ')}) {\n${functionBody(node.body!)}}`
  }

  function functionBody(body: readonly Node[]): string {
    const outer = temporaries
    temporaries = []
    const written = block(body)
    const own = temporaries.length > 0 ? `let ${temporaries.join(', ')};\n` : ''
    temporaries = outer
    return `${own}${written}`
  }

  const block = (body: readonly Node[]): string => body.map((node) => `${statement(node)}\n`).join('')

  function statement(node: Node): string {
    switch (node.type) {
      case 'LocalStatement':
        return local(node)
      case 'AssignmentStatement':
        return assignment(node)
      case 'CallStatement':
        return `${call(node.expression!)};`
      case 'FunctionDeclaration':
        return functionOf(node)
      case 'DoStatement':
        return `{\n${block(node.body!)}}`
      case 'WhileStatement':
        return `while (${condition(node.condition!)}) {\n${block(node.body!)}}`
      case 'RepeatStatement':
        return `for (;;) {\n${block(node.body!)}if (${condition(node.condition!)}) break;\n}`
      case 'BreakStatement':
        return 'break;'
      case 'ReturnStatement': {
        const answers = node.arguments as readonly Node[]
        if (answers.length === 0) return 'return;'
        if (answers.length > 1) return `return [${list(answers)}];`
        return `return ${isMany(answers[0]!) ? call(answers[0]!) : value(answers[0]!)};`
      }
      case 'IfStatement':
        return node
          .clauses!.map(({ condition: when, body }) => {
            return `${when ? `if (${condition(when)}) ` : ''}{\n${block(body!)}}`
          })
          .join(' else ')
      case 'ForNumericStatement': {
        const [at, end, step] = [fresh(), fresh(), node.step ? fresh() : undefined]
        const more =
          step === undefined ? `${at} <= ${end}` : `${step} > 0 ? ${at} <= ${end} : ${at} >= ${end}`
        const begins = `${at} = ${number(node.start!)}, ${end} = ${number(node.end!)}`
        const head = `let ${begins}${step ? `, ${step} = ${number(node.step!)}` : ''}; ${more}; ${at} += ${step ?? 1}`
        return `for (${head}) {\nlet ${variableOf(node.variable!)!.name} = ${at};\n${block(node.body!)}}`
      }
      case 'ForGenericStatement':
        return generic(node)
      default:
        return refuse(node)
    }
  }

  function generic(node: Node): string {
    const [iterator] = node.iterators!
    const path = iterator?.base && globalOf(iterator.base)
    const names = node.variables!.map((each) => variableOf(each)!.name)
    if (path !== 'ipairs' && path !== 'pairs' && path !== 'string.gmatch') return refuse(node)
    const given = list(argumentsOf(iterator!))
    const body = block(node.body!)
    if (path === 'string.gmatch')
      return `for (const $found of $lib['string.gmatch'](${given})) {\nlet [${names.join(', ')}] = $found;\n${body}}`
    const [of, at] = [fresh(), fresh()]
    const [key = fresh(), each = fresh()] = names
    if (path === 'pairs')
      return `{ const ${of} = ${given};\nfor (const ${at} of $lib.keys(${of})) {\nlet ${key} = ${at}, ${each} = ${of}.get(${at});
if (${each} === undefined) continue;\n${body}} }`
    return `{ const ${of} = ${given};\nfor (let ${at} = 1; ; ${at} += 1) {\nlet ${key} = ${at}, ${each} = $.get(${of}, ${at});
if (${each} === undefined) break;\n${body}} }`
  }

  function local(node: Node): string {
    const names = node.variables!.map((each) => variableOf(each)!.name)
    const init = node.init!
    const last = init[init.length - 1]
    if (last === undefined || init.length >= names.length || !isMany(last)) {
      const declared = names.map((name, index) => {
        const each = init[index]
        return `${name} = ${each === undefined ? 'undefined' : value(each)}`
      })
      return `let ${declared.join(', ')};`
    }
    const rest = fresh()
    const declared = names.map((name, index) =>
      index < init.length - 1
        ? `${name} = ${value(init[index]!)}`
        : `${name} = ${rest}[${index - init.length + 1}]`,
    )
    return `const ${rest} = $.all(${call(last)});\nlet ${declared.join(', ')};`
  }

  function assignment(node: Node): string {
    const targets = node.variables!
    const init = node.init!
    if (targets.length === 1) return assign(targets[0]!, value(init[0]!))
    // All places and values are worked out before the first of them is assigned.
    const lines: string[] = []
    const places = targets.map((target) => {
      if (target.type === 'Identifier') return [nameOf(target)] as const
      const [base, key] = [fresh(), fresh()]
      const index = target.index ? value(target.index) : JSON.stringify(target.identifier!.name)
      lines.push(`const ${base} = ${value(target.base!)}, ${key} = ${index};`)
      return [base, key] as const
    })
    const results = fresh()
    lines.push(`const ${results} = [${list(init)}];`)
    for (const [index, [base, key]] of places.entries()) {
      const result = `${results}[${index}]`
      lines.push(key === undefined ? `${base} = ${result};` : `$.set(${base}, ${key}, ${result});`)
    }
    return `{ ${lines.join(' ')} }`
  }

  function assign(target: Node, assigned: string): string {
    if (target.type === 'Identifier') return `${nameOf(target)} = ${assigned};`
    const key = target.index ? value(target.index) : JSON.stringify(target.identifier!.name)
    return `$.set(${value(target.base!)}, ${key}, ${assigned});`
  }

  return { functionBody }
}
