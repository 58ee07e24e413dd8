// Each arm shows a model some tools, and runs what the model writes for a task.
import {writeFileSync} from 'node:fs'
import {createServer} from 'node:http'
import {join} from 'node:path'
import {experimental_runCodeMode as runCodeMode} from '@ai-sdk/code-mode'
import {jsonSchema, tool} from 'ai'
import {CodeModeUtcpClient} from '@utcp/code-mode'
import '@utcp/mcp'
import {McpServer} from '@modelcontextprotocol/sdk/server/mcp.js'
import {InMemoryTransport} from '@modelcontextprotocol/sdk/inMemory.js'
import {Client} from '@modelcontextprotocol/sdk/client/index.js'
import {ListToolsRequestSchema} from '@modelcontextprotocol/sdk/types.js'
import {connect, servers, stdio} from './upstream.mjs'
import {workerd} from './workerd.mjs'

export const text = value => typeof value === 'string' ? value : JSON.stringify(value)

// A host shows a model a server's instructions beside its tools.
const instructions = client => client.getInstructions() ?? ''

// bare: the client calls each tool itself.
export function bare(u) {
  return {
    list: JSON.stringify({tools: Object.values(u.tools).map(t => t.tool)}) + u.clients.map(instructions).join(''), upstream: u, close: () => u.close(),
    // Each call is a round trip of the model, which writes its name and arguments and reads its result.
    async runCalls(calls) {
      const read = []
      for (const [name, args] of calls) {
        try { read.push(text(await u.call(name, args))) } catch (e) { return {ok: false, answer: e.message, read: [...read, e.message]} }
      }
      return {ok: true, answer: read.at(-1), read}
    },
  }
}

// onecall: the chain is the argument of one tool.
export async function onecall(dir, program) {
  writeFileSync(join(dir, 'onecall.json'), JSON.stringify({mcpServers: {
    filesystem: {...servers.filesystem, cwd: dir}, memory: {...servers.memory, env: {MEMORY_FILE_PATH: join(dir, 'memory.jsonl')}},
  }}))
  const home = {XDG_STATE_HOME: join(dir, '.state'), XDG_CACHE_HOME: join(dir, '.cache'), XDG_CONFIG_HOME: join(dir, '.config')}
  const client = await connect(stdio(program, ['serve', '--config', join(dir, 'onecall.json')], dir, home))
  for (;;) { // until both servers have started
    const info = JSON.parse((await client.callTool({name: 'info', arguments: {}})).content[0].text)
    if (info.state === 'ready') break
    await new Promise(r => setTimeout(r, 50))
  }
  return {
    list: JSON.stringify(await client.listTools()) + instructions(client), close: () => client.close(),
    async run(chain) {
      const result = await client.callTool({name: 'chain', arguments: chain})
      return {ok: !result.isError, answer: result.content[0].text}
    },
    search: async query => (await client.callTool({name: 'search', arguments: {query}})).content[0].text,
  }
}

// aiSDK: the AI SDK's code mode, in QuickJS. own are functions of the host, by name.
export async function aiSDK(u, own = {}) {
  const tools = Object.fromEntries(Object.entries(u.tools).map(([name, t]) => [name, tool({
    description: t.tool.description,
    inputSchema: jsonSchema(t.tool.inputSchema),
    outputSchema: t.tool.outputSchema && jsonSchema(t.tool.outputSchema),
    execute: args => u.call(name, args),
  })]))
  const {buildCodeModeToolDescription} = await import(new URL('./node_modules/@ai-sdk/code-mode/dist/tool-prompt.js', import.meta.url))
  const list = buildCodeModeToolDescription(tools)
  for (const [name, execute] of Object.entries(own)) tools[name] = tool({inputSchema: jsonSchema({type: 'object'}), execute})
  return {
    list, upstream: u, close: () => u.close(),
    async run(js) {
      try {
        return {ok: true, answer: text(await runCodeMode({js, tools, toolOptions: {toolCallId: 'compare', messages: []}}))}
      } catch (e) {
        return {ok: false, answer: e.message}
      }
    },
  }
}

// utcp: UTCP's code mode, in isolated-vm, which connects to the servers by itself.
export async function utcp(dir, mcpServers) {
  const client = await CodeModeUtcpClient.create(dir)
  const made = await client.registerManual({name: 'm', call_template_type: 'mcp', config: {mcpServers}})
  if (!made.success) throw new Error(JSON.stringify(made.errors))
  const types = await client.getAllToolsTypeScriptInterfaces()
  return {
    list: CodeModeUtcpClient.AGENT_PROMPT_TEMPLATE + '\n' + types, close: () => client.close(),
    async run(code) {
      const {result, logs} = await client.callToolChain(code)
      const failed = result == null && logs?.some(line => line.includes('[ERROR]'))
      return {ok: !failed, answer: failed ? JSON.stringify({result, logs}) : text(result)}
    },
  }
}

// utcpServers are both servers in a folder, in UTCP's words.
export const utcpServers = dir => Object.fromEntries(Object.entries(servers).map(([name, s]) =>
  [name, {transport: 'stdio', ...s, cwd: dir, env: {...process.env, MEMORY_FILE_PATH: join(dir, 'memory.jsonl')}}]))

// cloudflare: Cloudflare's code mode with its stateless executor, in workerd on this machine. The servers are processes, which a worker
// cannot start: its calls go over HTTP to this process, which is one hop that the other arms do not have.
export async function cloudflare(u) {
  const hop = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const {name, args} = JSON.parse(body)
    const answer = await u.call(name, args).then(value => ({value}), e => ({error: e.message}))
    response.end(JSON.stringify(answer))
  })
  await new Promise(r => hop.listen(0, '127.0.0.1', r))
  const mf = await workerd(worker(Object.keys(u.tools), hop.address().port))
  return {
    list: await cloudflareList(u), upstream: u,
    close: async () => { await mf.dispose(); hop.close(); await u.close() },
    async run(code) {
      const response = await mf.dispatchFetch('http://x/', {method: 'POST', body: code})
      const {result, error, logs} = JSON.parse(await response.text())
      return {ok: !error, answer: error ? JSON.stringify({error, logs}) : text(result)}
    },
  }
}

const worker = (names, port) => `
import {DynamicWorkerExecutor} from '@cloudflare/codemode'
const fns = Object.fromEntries(${JSON.stringify(names)}.map(name => [name, async args => {
  const {value, error} = await (await fetch('http://127.0.0.1:${port}/', {method: 'POST', body: JSON.stringify({name, args})})).json()
  if (error) throw new Error(error)
  return value
}]))
export default {async fetch(request, env) {
  const executor = new DynamicWorkerExecutor({loader: env.LOADER})
  return Response.json(await executor.execute(await request.text(), [{name: 'codemode', fns}]))
}}`

// cloudflareList is what its own wrapper of an MCP server lists.
export async function cloudflareList(u) {
  const {codeMcpServer} = await import('@cloudflare/codemode/mcp')
  const server = new McpServer({name: 'both', version: '1'}, {capabilities: {tools: {}}})
  server.server.setRequestHandler(ListToolsRequestSchema, () => ({tools: Object.entries(u.tools).map(([name, t]) => ({...t.tool, name}))}))
  const wrapped = await codeMcpServer({server, executor: {execute: async () => ({result: null})}})
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client({name: 'compare', version: '1'})
  await Promise.all([wrapped.connect(far), client.connect(near)])
  const list = await client.listTools()
  await client.close()
  return JSON.stringify(list)
}
