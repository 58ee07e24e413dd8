// A client of the official TypeScript SDK reads every list of a server, whose schemas it checks, and calls each tool but onecall's own:
//
//	ONECALL_TEST_NPM=folder node lists.mjs COMMAND [ARGUMENT…]
//
// It writes what it read as one line of JSON: the tools by name, and the names of resources, templates and prompts.
import { createRequire } from "node:module"
import { join } from "node:path"

const require = createRequire(join(process.env.ONECALL_TEST_NPM, "package.json"))
const { Client } = require("@modelcontextprotocol/sdk/client/index.js")
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js")

const [command, ...args] = process.argv.slice(2)
const client = new Client({ name: "proof", version: "1.0.0" }, { capabilities: {} })
await client.connect(new StdioClientTransport({ command, args, env: process.env }))
const { tools } = await client.listTools()
const calls = []
for (const { name } of tools) {
	if (["chain", "info", "search"].includes(name)) continue
	const { content } = await client.request({ method: "tools/call", params: { name, arguments: {} } },
		require("@modelcontextprotocol/sdk/types.js").CallToolResultSchema)
	calls.push(content[0].text)
}
const names = (items) => items.map((item) => item.name)
process.stdout.write(JSON.stringify({
	tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
	calls,
	resources: names((await client.listResources()).resources),
	templates: names((await client.listResourceTemplates()).resourceTemplates),
	prompts: names((await client.listPrompts()).prompts),
}) + "\n")
await client.close()
