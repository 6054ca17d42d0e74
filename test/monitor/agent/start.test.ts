/** Configuration errors of an agent. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { agentAccess } from '../../../monitor/agent/start.ts'
import { AgentClient } from '../../../monitor/egress/agent-client.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'

const TOKEN = `vt_${'x'.repeat(32)}`

test('6.5: the token comes from the environment or from a file, and from one of them only', () => {
  const file = join(makeMemoryFolder(), 'token')
  writeFileSync(file, `${TOKEN}\n`)
  const server = 'https://monitor.example.org'
  expect(agentAccess({ AGENT_SERVER: server, AGENT_TOKEN: TOKEN })).toEqual({ server, token: TOKEN })
  expect(agentAccess({ AGENT_SERVER: server, AGENT_TOKEN_FILE: file })).toEqual({ server, token: TOKEN })
  expect(() => agentAccess({ AGENT_SERVER: server })).toThrow(/^AGENT_TOKEN: is missing\./)
  const both = { AGENT_SERVER: server, AGENT_TOKEN: TOKEN, AGENT_TOKEN_FILE: file }
  expect(() => agentAccess(both)).toThrow(/^AGENT_TOKEN: is given twice\./)
  const absent = { AGENT_TOKEN_FILE: `${file}-not` }
  expect(() => agentAccess(absent)).toThrow(/^AGENT_TOKEN_FILE: cannot be read: ENOENT/)
})

for (const server of [
  ...['', 'monitor.example.org', 'ftp://monitor.example.org', 'https://me:secret@monitor.example.org'],
  ...['https://monitor.example.org/?a=b', 'https://monitor.example.org/#a', 'unix:/run/monitor.sock'],
]) {
  test(`6.5: ${JSON.stringify(server)} is not a valid server`, () => {
    const start = () => new AgentClient({ server, token: TOKEN, version: '1.0.0' })
    expect(start).toThrow('AGENT_SERVER: is not the URL of a server. Write it like')
    expect(start).not.toThrow('secret')
  })
}

for (const token of ['', 'a b', 'a\r\nX-Header: b', 'ä', 'x'.repeat(257)]) {
  test(`6.5: ${JSON.stringify(token.slice(0, 20))} is not a valid token, and is not printed`, () => {
    const start = () => new AgentClient({ server: 'https://monitor.example.org', token, version: '1.0.0' })
    expect(start).toThrow(
      /^AGENT_TOKEN: is not a token: one line of visible characters\. Set it to [^.]* has shown\. \[AGENT_SETTING\]$/,
    )
  })
}
