// A client of the official TypeScript SDK does an agent's work against a server of onecall:
//
//	ONECALL_TEST_NPM=folder node sdk.mjs http URL FILE
//	ONECALL_TEST_NPM=folder node sdk.mjs stdio COMMAND [ARGUMENT…] FILE
//
// FILE is a JSON array of objects {"id":1,"name":"…"}, which the server reaches as files.read_text_file. It ends with 0, and tells
// what it saw in one line of JSON, where all is as it must be.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"

const require = createRequire(join(process.env.ONECALL_TEST_NPM, "package.json"))
const { Client } = require("@modelcontextprotocol/sdk/client/index.js")
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js")
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js")

const [way, target, ...rest] = process.argv.slice(2)
const file = rest.pop()
const items = JSON.parse(readFileSync(file, "utf8"))

const client = new Client({ name: "proof", version: "1.0.0" }, { capabilities: {} })
const transport = way === "http"
	? new StreamableHTTPClientTransport(new URL(target))
	: new StdioClientTransport({ command: target, args: rest, env: process.env })
const closed = new Promise((resolve) => { client.onclose = resolve })
await client.connect(transport)

// call gives the one text block of a tool's answer, read as JSON.
async function call(name, args, options) {
	const result = await client.callTool({ name, arguments: args }, undefined, options)
	assert.equal(result.content.length, 1, JSON.stringify(result))
	assert.equal(result.content[0].type, "text")
	assert.equal(result.structuredContent, undefined)
	return { failed: result.isError === true, answer: JSON.parse(result.content[0].text), text: result.content[0].text }
}

const { tools } = await client.listTools()
assert.deepEqual(tools.map((tool) => tool.name).sort(), ["chain", "info", "search"])
for (const tool of tools) {
	assert.match(tool.name, /^[A-Za-z0-9_-]{1,64}$/)
	assert.equal(tool.inputSchema.type, "object")
	for (const keyword of ["oneOf", "anyOf", "allOf", "$ref", "not"]) assert.ok(!(keyword in tool.inputSchema), keyword)
}
assert.ok(client.getInstructions()?.length > 0)
await client.ping()

// What a model does first: look at what is there. The upstreams may still be starting.
let found
for (let tries = 0; ; tries++) {
	found = await call("search", { query: "read the text of a file" })
	assert.ok(!found.failed, found.text)
	if (found.text.includes("files.read_text_file(")) break
	assert.ok(tries < 300, found.text)
	await new Promise((resolve) => setTimeout(resolve, 100))
}
const info = await call("info", {})
assert.ok(!info.failed && info.answer.version, info.text)

// A chain over a real server, with progress.
const steps = [
	{ id: "file", fn: "files.read_text_file", args: { path: file } },
	{ id: "items", fn: "expr.eval", args: { expression: "fromJSON(text)", vars: { text: "$file.content" } } },
]
const last = await call("chain", { steps, return: "$items[-1]" })
assert.deepEqual([last.failed, last.answer.ok, last.answer.result], [false, true, items.at(-1)])
assert.deepEqual(last.answer.steps.map((step) => step.status), ["ok", "ok"])
assert.ok(last.answer.usage.tokens > 0)

// The client forgets its listener when the answer is there. On a busy machine it may read all notifications together with the answer,
// although the last step takes a while: then the call is made again.
let progress
const pause = { fn: "expr.eval", args: { expression: "n + 1", vars: { n: "$result ?? 0" } }, repeat: { until: "$result >= 2", max: 3, delayMs: 200 } }
for (let tries = 0; !(progress?.length >= 2); tries++) {
	assert.ok(tries < 20, "no progress")
	progress = []
	const slow = await call("chain", { steps: [...steps, pause] }, { onprogress: (p) => progress.push(p) })
	assert.equal(slow.answer.result, 2, slow.text)
}
for (let i = 1; i < progress.length; i++) assert.ok(progress[i].progress > progress[i - 1].progress, JSON.stringify(progress))

const lite = await call("chain", { steps, return: "$items[0]", lite: true })
assert.equal(lite.text, JSON.stringify(items[0]))

// A large result: a probe, then pages that joined are the whole, and a query.
const large = await call("chain", { steps, budget: { maxTotalTokens: 1500 } })
assert.ok(!large.failed, large.text)
const probe = large.answer.result
assert.equal(probe.count, items.length)
const token = probe.continuation_token
assert.match(token, /^oc1_/)
const joined = []
for (let page = 1, more = true; more; page++) {
	const { answer, failed, text } = await call("chain", { continuation_token: token, mode: "paginated", page, page_size: 75, lite: true })
	assert.ok(!failed, text)
	joined.push(...answer.items)
	more = answer.has_more
}
assert.deepEqual(joined, items)
const some = await call("chain", { continuation_token: token, mode: "query", query: "filter($result, .id > 498)", lite: true })
assert.deepEqual(some.answer, items.filter((item) => item.id > 498))
const gone = await call("chain", { continuation_token: "oc1_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" })
assert.deepEqual([gone.failed, gone.answer.error.code], [true, "token_expired"])

// Chains that fail, and what they teach.
const missing = await call("chain", { steps: [...steps, { fn: "expr.eval", args: { expression: "x", vars: { x: "$items[0].nmae" } } }] })
assert.deepEqual([missing.failed, missing.answer.ok, missing.answer.error.code, missing.answer.error.step, missing.answer.error.nearest],
	[true, false, "reference_missing", 2, "name"], missing.text)
const unknown = await call("chain", { steps: [{ fn: "files.read_text_fil" }] })
assert.deepEqual([unknown.failed, unknown.answer.error.code, unknown.answer.error.faults?.[0].code], [true, "compile", "unknown_function"], unknown.text)
const refused = await call("chain", { steps: [{ fn: "files.read_text_file", args: { path: "/etc/passwd" } }] })
assert.deepEqual([refused.failed, refused.answer.error.code], [true, "function_failed"], refused.text)
await assert.rejects(client.callTool({ name: "chian", arguments: {} }), (error) => error.code === -32602)

// A client that gives up does not disturb the server.
const controller = new AbortController()
setTimeout(() => controller.abort("enough"), 200)
await assert.rejects(call("chain", { steps: [{ fn: "everything.trigger-long-running-operation", args: { duration: 50, steps: 50 } }] }, { signal: controller.signal }))
await client.ping()
const after = await call("chain", { steps, return: "$items[1].name", lite: true })
assert.equal(after.answer, items[1].name)

if (way === "http") await transport.terminateSession()
await client.close()
await closed
console.log(JSON.stringify({ tools: tools.length, progress: progress.length, pages: Math.ceil(items.length / 75), protocol: transport.protocolVersion ?? null }))
