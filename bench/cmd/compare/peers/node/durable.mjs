// durable.mjs URL FOLDER serves Cloudflare's durable code mode in front of the MCP server at URL, on a free port of loopback, which it
// prints. The log of calls is in FOLDER. A request has the name of a method of the runtime, its argument, and whether writes need approval.
import {workerd} from './workerd.mjs'

const [url, folder] = process.argv.slice(2)

const worker = `
import {DurableObject} from 'cloudflare:workers'
import {createCodemodeRuntime, DynamicWorkerExecutor, McpConnector} from '@cloudflare/codemode'
import {Client} from '@modelcontextprotocol/sdk/client/index.js'
import {StreamableHTTPClientTransport} from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {CfWorkerJsonSchemaValidator} from '@modelcontextprotocol/sdk/validation/cfworker'
export {CodemodeRuntime} from '@cloudflare/codemode'

class Bench extends McpConnector {
  constructor(ctx, env, approve) {
    super(ctx, env)
    this.approve = approve
  }
  name() { return 'tools' }
  toolName(tool) { return 'bench_' + tool.name }
  async createConnection() {
    const client = new Client({name: 'compare', version: '1'}, {jsonSchemaValidator: new CfWorkerJsonSchemaValidator()})
    await client.connect(new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})))
    const {tools} = await client.listTools()
    this.reads = new Set(tools.filter(t => t.annotations?.readOnlyHint).map(t => this.toolName(t)))
    return {tools, client: {callTool: call => client.callTool(call, undefined, {timeout: 1000})}}
  }
  tool(name, t) { return {...t, requiresApproval: this.approve && !this.reads.has(name)} }
}

export class Agent extends DurableObject {
  async fetch(request) {
    const {method, argument, approve} = await request.json()
    const executor = new DynamicWorkerExecutor({loader: this.env.LOADER})
    const runtime = createCodemodeRuntime({ctx: this.ctx, executor, connectors: [new Bench(this.ctx, this.env, approve)]})
    return Response.json(await runtime[method](argument))
  }
}

export default {fetch: (request, env) => env.AGENT.getByName('agent').fetch(request)}`

const mf = await workerd(worker, {durableObjects: {AGENT: {className: 'Agent', useSQLite: true}}, durableObjectsPersist: folder})
console.log('listening on ' + (await mf.ready).href)
