package peers

const question = `How long does the same work take through each way to call tools, what does it cost in processor time and memory, and
how many tokens does a model read and write for it? All arms stand on loopback in front of the same upstream, and the same client (the
Go SDK's, with the same settings) calls them over Streamable HTTP. Each arm runs in processes of its own. They take turns in every
round. A time is that of the whole work as the client sees it, a ratio the median of the ratios of the rounds' medians. Every answer is
checked.`

// comments explain how the arms differ.
var comments = []string{
	"The bare client makes one call after the other in every work. A host that makes independent calls at the same time is " +
		"faster at those.",
	"vMCP reads its tools anew for each script, opens a connection for each call, and also a session where the upstream has " +
		"sessions.",
	"The code modes are libraries: an MCP server of the comparison, as lean as can be, stands in front of each. Its one " +
		"tool runs a program. Their calls go through the TypeScript SDK's client, which speaks 2025-11-25, also to the " +
		"stateless upstream.",
	"Cloudflare's code mode runs in workerd as it does in production, with its stateless executor: each program is a new " +
		"isolate. The worker is the MCP server itself, and its client goes without signals and a stream for notifications, " +
		"which a worker cannot share between requests.",
	"UTCP's calls are synchronous for the program, so independent reads wait for one another.",
	"A no-op step of the gateway's own calls nothing upstream: `expr.eval` of onecall, a function of the host that gives its " +
		"argument back in the code modes. All ten are asked for at once. vMCP and UTCP have no functions but those of servers.",
	"onecall runs as `onecall serve --http` with its defaults: it checks the whole chain before it runs, counts tokens, keeps " +
		"a record of it, and logs each request.",
	"Resident memory is that after all works, also those of 16 clients. Of onecall and vMCP some tens of MB are pages of the " +
		"program itself, which the system can drop.",
	"Processor time comes in steps of 10 ms, so that of few and short works is rough. Memory that processes share counts " +
		"for each of them.",
	"Most of a call's time is the upstream's and the network's: what onecall saves of the rest, ten dependent calls give back to " +
		"the process between. So they take about the bare client's time, and less of the client's processor.",
	"What a model writes is counted as calls: a name, and arguments that hold the chain or the program's text. A program with a loop is " +
		"shorter than a chain, which has a step for each dependent call: a model writes more for onecall there.",
}

// reasons says why another arm may be faster than onecall, by work.
var reasons = map[string]string{
	"empty": "The line that onecall logs of each request over HTTP is some 12 % of its time, most of it to make the line: it is written " +
		"beside the request. With a journal in memory in place of SQLite it takes no less. Most of the rest is HTTP and the client, as with " +
		"the peer.",
	"noop10":      "An empty chain is more than half of it. The ten steps are checked, planned and recorded in the rest.",
	"calls10":     "The calls of onecall pass one more process, and ten small calls at once win little on few cores.",
	"dependent3":  "The answer comes through one more process, and three calls save little.",
	"dependent10": "Each call passes through a process that checks and records it, which takes what onecall saves beside the SDK's client.",
	"reads10":     "onecall checks, plans and records the reads.",
	"clients16":   "On a machine whose cores are all busy, each process more takes from the others.",
}

// whyNot explains why a goal is not reached, by the figure's name, if the reason differs from that of the work.
var whyNot = map[string]string{
	"dependent10/fastest-peer/sessions": "The bound was set against vMCP, which connects again for each call: to vMCP's time " +
		"the ratio is `peers/dependent10/vmcp/sessions`. " + reasons["dependent10"],
	"memory/vmcp": "About half of onecall's are pages of the program itself, which are there whatever it does. All arms have worked for the " +
		"same time then, in which onecall has done more.",
}
