// The upstream of every arm: two real MCP servers over stdio, in a folder of their own.
import {mkdtempSync, mkdirSync, writeFileSync, readdirSync, readFileSync, realpathSync} from 'node:fs'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {Client} from '@modelcontextprotocol/sdk/client/index.js'
import {StdioClientTransport} from '@modelcontextprotocol/sdk/client/stdio.js'

export const servers = Object.fromEntries(['filesystem', 'memory'].map(name => {
  const script = join(import.meta.dirname, 'node_modules', '@modelcontextprotocol', `server-${name}`, 'dist', 'index.js')
  return [name, {command: process.execPath, args: [script, ...(name === 'filesystem' ? ['.'] : [])]}]
}))

// folder makes a folder with the inventory of ten hosts and a list of ten files each of which names the next.
export function folder(broken) {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'compare')))
  mkdirSync(join(dir, 'conf'))
  const hosts = Array.from({length: 10}, (_, i) => ({name: broken && i === 5 ? 'dc/web-5' : `web-${i}`, role: i % 2 ? 'db' : 'web'}))
  writeFileSync(join(dir, 'inventory.json'), JSON.stringify(hosts))
  for (let i = 0; i < 10; i++) writeFileSync(join(dir, `${i}.txt`), `${i + 1}.txt`)
  return dir
}

// written are the files that the task has made.
export const written = dir => Object.fromEntries(
  readdirSync(join(dir, 'conf')).sort().map(name => [name, readFileSync(join(dir, 'conf', name), 'utf8')]))

// stdio starts a program as a server in a folder.
export const stdio = (command, args, dir, env) =>
  new StdioClientTransport({command, args, cwd: dir, env: {...process.env, ...env}, stderr: 'ignore'})

export async function connect(transport) {
  const client = new Client({name: 'compare', version: '1'})
  await client.connect(transport)
  return client
}

// transports are those of both servers in a folder.
export const transports = dir => Object.fromEntries(Object.entries(servers).map(([name, {command, args}]) =>
  [name, stdio(command, args, dir, {MEMORY_FILE_PATH: join(dir, 'memory.jsonl')})]))

// Upstream calls the tools of servers as a host does.
export class Upstream {
  static async open(transports) {
    const u = new Upstream()
    u.tools = {}
    u.clients = []
    for (const [server, transport] of Object.entries(transports)) {
      const client = await connect(transport)
      u.clients.push(client)
      for (const tool of (await client.listTools()).tools) u.tools[`${server}_${tool.name}`] = {tool, client}
    }
    return u
  }
  // call gives the structured result, as all arms do; a failure is thrown.
  async call(name, args) {
    if (!this.tools[name]) throw new Error(`unknown tool: ${name}`)
    const {tool, client} = this.tools[name]
    const result = await client.callTool({name: tool.name, arguments: args})
    if (result.isError) throw new Error(result.content[0].text)
    return result.structuredContent ?? result.content[0].text
  }
  async close() { for (const c of this.clients) await c.close() }
}
