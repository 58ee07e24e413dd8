// The front of the code modes, which are libraries: an MCP server over Streamable HTTP with one tool, as lean as can be, so that the time
// is the library's. It runs in Node.js and in a worker.

// answer is the HTTP response to a request of a client: its status and body. run gives {ok, answer} for a program.
export async function answer(httpMethod, body, tool, run) {
  if (httpMethod !== 'POST') return {status: 405, body: ''}
  const {id, method, params} = JSON.parse(body)
  if (id === undefined) return {status: 202, body: ''}
  const known = methods[method]
  const reply = known
    ? {result: {resultType: 'complete', ...await known(params, tool, run)}}
    : {error: {code: -32601, message: 'no such method'}}
  return {status: 200, body: JSON.stringify({jsonrpc: '2.0', id, ...reply})}
}

const serverInfo = {name: 'code', version: '1'}

const methods = {
  initialize: params => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo}),
  'server/discover': () => ({
    supportedVersions: ['2026-07-28', '2025-11-25'], capabilities: {tools: {}}, ttlMs: 0, cacheScope: 'private',
    _meta: {'io.modelcontextprotocol/serverInfo': serverInfo},
  }),
  ping: () => ({}),
  'tools/list': (_, tool) => ({tools: [tool], ttlMs: 0, cacheScope: 'private'}),
  'tools/call': async (params, _, run) => {
    const {ok, answer} = await run(params.arguments.code)
    return {content: [{type: 'text', text: answer}], isError: !ok}
  },
}

// codeTool is the tool that runs a program.
export const codeTool = description => ({
  name: 'code', description, inputSchema: {type: 'object', required: ['code'], properties: {code: {type: 'string'}}},
})
