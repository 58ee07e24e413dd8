// An MCP server over stdio whose lists hold well-formed entries beside one of each kind that strict clients refuse:
//
//	node odd-server.mjs LISTS
//
// LISTS is a JSON file {"tools":[…],"resources":[…],"resourceTemplates":[…],"prompts":[…]}.
import { readFileSync } from "node:fs"
import { createInterface } from "node:readline"

const lists = JSON.parse(readFileSync(process.argv[2], "utf8"))
const fields = { "tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts" }

for await (const line of createInterface({ input: process.stdin })) {
	const { id, method, params } = JSON.parse(line)
	if (id === undefined) continue
	let result = {}
	if (method === "initialize") {
		result = { protocolVersion: "2025-06-18", serverInfo: { name: "odd", version: "1" }, capabilities: { tools: {}, resources: {}, prompts: {} } }
	} else if (fields[method]) {
		result = { [fields[method]]: lists[fields[method]], _meta: [] }
	} else if (method === "tools/call") {
		result = { content: [{ type: "text", text: "called " + params.name }] }
	}
	process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n")
}
