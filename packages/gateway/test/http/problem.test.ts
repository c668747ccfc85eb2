/** Problem documents: the members that clients rely on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { problemBody } from '../../src/http/problem.ts'

test('an invalid request has errors also where no field is at fault', () => {
  const { errors } = JSON.parse(problemBody(new SluiceError('INVALID_REQUEST', 'The path is not valid.')))
  assert.deepEqual(errors, [{ path: '', message: 'The path is not valid.' }])
})

test('other problems have errors only where fields are named', () => {
  const named = new SluiceError('INVALID_REQUEST', 'x', {
    errors: [{ path: '/a', message: 'is required', line: 3 }],
  })
  assert.deepEqual(JSON.parse(problemBody(named)).errors, [{ path: '/a', message: 'is required' }])
  assert.equal('errors' in JSON.parse(problemBody(new SluiceError('NOT_FOUND', 'x'))), false)
})
