package peers

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
