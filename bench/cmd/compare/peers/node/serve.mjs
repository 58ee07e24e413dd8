// serve.mjs ARM URL serves a code mode as an MCP server in front of the one at URL, on a free port of loopback, which it prints.
import {mkdtempSync} from 'node:fs'
import {createServer} from 'node:http'
import {tmpdir} from 'node:os'
import {join} from 'node:path'
import {StreamableHTTPClientTransport} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {aiSDK, cloudflareList, utcp} from './arms.mjs'
import {answer, codeTool} from './front.mjs'
import {Upstream} from './upstream.mjs'
import {workerd} from './workerd.mjs'

const [name, url] = process.argv.slice(2)
const say = console.log.bind(console)
console.log = () => {} // UTCP writes a log there
const upstream = () => Upstream.open({bench: new StreamableHTTPClientTransport(new URL(url))})

const start = {
  aiSDK: async () => serve(await aiSDK(await upstream(), {own: async ({n}) => n})),
  utcp: async () => serve(await utcp(mkdtempSync(join(tmpdir(), 'compare')), {bench: {transport: 'http', url}})),
  // The worker is the MCP server itself, and calls the upstream.
  cloudflare: async () => {
    const u = await upstream()
    const {tools: [tool]} = JSON.parse(await cloudflareList(u))
    await u.close()
    const mf = await workerd(worker(Object.keys(u.tools), tool))
    return (await mf.ready).href
  },
}

// serve serves an arm from this process.
async function serve(arm) {
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const reply = await answer(request.method, body, codeTool(arm.list), arm.run)
    response.writeHead(reply.status, {'content-type': 'application/json'}).end(reply.body)
  })
  await new Promise(r => server.listen(0, '127.0.0.1', r))
  return `http://127.0.0.1:${server.address().port}/`
}

const worker = (names, tool) => `
import {DynamicWorkerExecutor} from '@cloudflare/codemode'
import {Client} from '@modelcontextprotocol/sdk/client/index.js'
import {StreamableHTTPClientTransport} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {answer} from './front.mjs'
// A worker may not use in one request what belongs to another: the client's signals and its stream for notifications are left out.
const ownFetch = (url, init) => init.method === 'GET' ? new Response(null, {status: 405}) : fetch(url, {...init, signal: undefined})
let client
async function call(name, args) {
  const result = await client.callTool({name, arguments: args})
  if (result.isError) throw new Error(result.content[0].text)
  return result.structuredContent ?? result.content[0].text
}
const fns = Object.fromEntries(${JSON.stringify(names)}.map(name => [name, args => call(name.slice('bench_'.length), args)]))
fns.own = async ({n}) => n
async function run(env, code) {
  if (!client) {
    const opened = new Client({name: 'compare', version: '1'})
    await opened.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)}), {fetch: ownFetch}))
    client = opened
  }
  const executor = new DynamicWorkerExecutor({loader: env.LOADER})
  const {result, error, logs} = await executor.execute(code, [{name: 'codemode', fns}])
  return error ? {ok: false, answer: JSON.stringify({error, logs})} : {ok: true, answer: JSON.stringify(result)}
}
export default {async fetch(request, env) {
  const reply = await answer(request.method, await request.text(), ${JSON.stringify(tool)}, code => run(env, code))
  return new Response(reply.body || null, {status: reply.status, headers: {'content-type': 'application/json'}})
}}`

say('listening on ' + await start[name]())
