/** `sluice schema`: prints the JSON Schema of a file, for completion and checks in an editor. */
import { didYouMean } from '../config/suggestion.ts'
import { type Arguments, badUsage, type CommandForm, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'

export const form: CommandForm = {
  name: 'schema',
  summary: 'The JSON Schema of sluice.yaml (config) or of a policy, for editors.',
  positionals: ['<config|policy>'],
  options: { json: { ...jsonOption, text: 'It is JSON anyway' } },
  examples: [
    [
      'sluice schema config > sluice.schema.json',
      'Then, as first line of sluice.yaml: # yaml-language-server: $schema=./sluice.schema.json',
    ],
    ['sluice schema policy > policy.schema.json', 'The same for a policy'],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const { jsonSchemaText, schemaNames } = await import('../config/json-schema.ts')
  const [asked] = read.positionals
  const name = schemaNames.find((each) => each === asked)
  if (name === undefined)
    throw badUsage(form, `"${asked}" is none of ${schemaNames.join(', ')}${didYouMean(asked!, schemaNames)}`)
  io.out(jsonSchemaText(name).trimEnd())
  return exitCodes.ok
}
