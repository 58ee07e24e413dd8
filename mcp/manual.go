package mcp

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
)

// manualOf is what is to be known of one of onecall's own tools, with schema losslessly; nil for any other name.
func (f *toolset) manualOf(name string, schema bool) json.RawMessage {
	switch {
	case !slices.Contains(ownToolNames, name):
		return nil
	case name != "chain":
		return marshal(ownManuals[name])
	case schema:
		return chain.ChainSchema()
	}
	manual := chainManual // a copy
	if hoist := f.server.o().Hoist; len(hoist) > 0 {
		manual.Hoisted = strings.Join(hoist, ", ") + ": accepted beside steps, as in common"
	}
	return marshal(manual)
}

// ownManuals are what the smaller tools take.
var ownManuals = map[string]map[string]string{
	"search": {
		"query":  "words; none: the sources",
		"page":   "from 1, 10 functions each",
		"names":  "describes these in full instead",
		"schema": "true: input and output schemas",
		"again":  "true: also signatures that were given before in this session",
		"lite":   "true: names alone",
	},
	"info": {"lite": "true: name, version and state alone"},
}

// chainManual is all that a chain takes, as `search` with names ["chain"] answers it: field → meaning. Lossless is
// chain.ChainSchema.
var chainManual = struct {
	Chain      map[string]string `json:"chain"`
	Step       map[string]string `json:"step"`
	References []string          `json:"references"`
	Hoisted    string            `json:"hoisted,omitempty"`
}{
	Chain: map[string]string{
		"steps":              "the pipeline, numbered from 0",
		"input":              "object, read as $input.path",
		"params":             "JSON Schemas of input's members; their defaults fill gaps",
		"common":             "arguments for every step whose function declares them; a step's args win",
		"return":             "any JSON with references; default: the last step's result",
		"verify":             "true: the whole result of a write, not its lean form",
		"budget":             "{maxTotalTokens, maxSteps, maxCalls, maxDurationMs}: lowers the server's",
		"onError":            "stop (default): nothing new starts; continue: only what depends on the failed step is skipped",
		"lite":               "true: the result and nothing else",
		"dryRun":             "true: the plan, nothing runs",
		"trace":              "none|summary|full: what is told of each step",
		"continuation_token": "of an earlier large result, without steps; with mode summary|paginated (page, page_size)|filtered (filter_keys)|query (query: reference or expression over $result)|full",
	},
	Step: map[string]string{
		"fn":          "function name; chain: {steps, return} in its place is an inline chain whose $input is args",
		"expr":        "in fn's place, without args: an expression over $0, $id, $input, $item; its value is the result",
		"args":        "object; strings may hold references",
		"id":          "name for $id.path",
		"when":        "expression; false: the step is skipped, its result null",
		"forEach":     "reference or expression giving an array; $item, $index; the result is the array of results",
		"concurrency": "of forEach; default 8 for reads, 1 for writes",
		"repeat":      "{until, max, delayMs, collect}: call again until the expression over $result is true; args see the last round's $result, first null; collect: reference or expression over $result giving an array; the result is all rounds' arrays joined",
		"select":      "reference or expression over $result: what the step keeps",
		"orElse":      "result where the step fails",
		"timeoutMs":   "of one call",
		"retry":       "{max, backoffMs}: reads and idempotent functions only",
	},
	References: []string{
		`"$0.items[0].id" value; "$0.items[-1]" last; "$0.items[*].id" array; "$0.items[*].tags[**]" flattened`,
		`"$0.a?.b" null where missing; "$0.limit ?? 10" default; "$0[\"odd.key\"]" quoted key`,
		`"text ${$0.name}" inside text; "$$5" is the text $5`,
		`expressions (expr, when, select, forEach, repeat): expr-lang: $0.total > 3, filter($0.items, .size > 10), map, sum, len, sortBy`,
	},
}
