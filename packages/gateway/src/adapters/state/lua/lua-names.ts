/** Finds the variable that each name in a script means: its declaration, whether it changes, and what it begins with. */
import type { Node } from './lua-syntax.ts'

export interface Variable {
  /** The name in JavaScript: no other variable has it. */
  readonly name: string
  /** The expression or function that it is declared with. */
  readonly value: Node | undefined
  isAssigned: boolean
}

export interface Names {
  /** The variable that an identifier means; undefined for a global. */
  variableOf(identifier: Node): Variable | undefined
}

type Scope = Map<string, Variable>

export function namesOf(chunk: Node): Names {
  const found = new Map<Node, Variable>()
  const scopes: Scope[] = [new Map()]
  let declared = 0

  function declare(identifier: Node, value?: Node): void {
    declared += 1
    const variable: Variable = { name: `${identifier.name}$${declared}`, value, isAssigned: false }
    scopes[scopes.length - 1]!.set(identifier.name!, variable)
    found.set(identifier, variable)
  }

  function within(work: () => void): void {
    scopes.push(new Map())
    work()
    scopes.pop()
  }

  function visitAll(nodes: readonly Node[]): void {
    for (const each of nodes) visit(each)
  }

  const block = (body: readonly Node[]): void => within(() => visitAll(body))

  function visit(node: Node): void {
    switch (node.type) {
      case 'LocalStatement':
        visitAll(node.init!)
        for (const [index, each] of node.variables!.entries()) declare(each, node.init![index])
        return
      case 'FunctionDeclaration':
        if (node.isLocal) declare(node.identifier!, node)
        within(() => {
          for (const each of node.parameters!) declare(each)
          visitAll(node.body!)
        })
        return
      case 'ForNumericStatement':
        for (const each of [node.start!, node.end!, node.step]) if (each) visit(each)
        within(() => {
          declare(node.variable!)
          visitAll(node.body!)
        })
        return
      case 'ForGenericStatement':
        visitAll(node.iterators!)
        within(() => {
          for (const each of node.variables!) declare(each)
          visitAll(node.body!)
        })
        return
      case 'RepeatStatement':
        within(() => {
          visitAll(node.body!)
          visit(node.condition!)
        })
        return
      case 'AssignmentStatement':
        visitAll(node.init!)
        for (const each of node.variables!) {
          visit(each)
          const variable = found.get(each)
          if (variable) variable.isAssigned = true
        }
        return
      case 'WhileStatement':
        visit(node.condition!)
        block(node.body!)
        return
      case 'DoStatement':
        block(node.body!)
        return
      case 'IfStatement':
        for (const clause of node.clauses!) {
          if (clause.condition) visit(clause.condition)
          block(clause.body!)
        }
        return
      case 'MemberExpression':
        visit(node.base!)
        return
      case 'TableKeyString':
        visit(node.value as Node)
        return
      case 'Identifier': {
        for (let index = scopes.length - 1; index >= 0; index -= 1) {
          const variable = scopes[index]!.get(node.name!)
          if (variable === undefined) continue
          found.set(node, variable)
          return
        }
        return
      }
      default:
        for (const value of Object.values(node)) {
          if (Array.isArray(value)) visitAll(value as readonly Node[])
          else if (typeof value === 'object' && value !== null && 'type' in value) visit(value as Node)
        }
    }
  }

  block(chunk.body!)
  return { variableOf: (identifier) => found.get(identifier) }
}
