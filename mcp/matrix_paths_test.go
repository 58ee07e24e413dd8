package mcp_test

import (
	"fmt"
	"strings"
	"unicode"
)

// A matrixPath is one way to reach a function, or to learn of it. Its text has placeholders: for the hidden function FN (its name in some
// spelling), ARGS (valid arguments), WORD (one of its words), ACTION, RESOURCE and FLAT; for a function that the caller may use OKFN,
// OKARGS, OKARG, OKACTION, OKRESOURCE and OKFLAT. TOKEN is the token of another caller's result.
type matrixPath struct {
	tool string // chain, search, info; DISPATCHER and FLAT for a group's and a function's tool; "": text is a whole message
	text string // its arguments
}

// chainPaths are tried with each hidden function.
var chainPaths = []matrixPath{
	{"chain", `{"steps":[{"fn":"FN","args":ARGS}]}`},
	{"chain", `{"steps":[{"fn":"FN"}],"lite":true}`},
	{"chain", `{"$schema":"https://example.com/chain.json","steps":[{"fn":"FN","args":ARGS},{"expr":"$0.FN"}]}`},
	{"chain", `{"steps":[{"fn":"FN","args":{"wrong":1,"subject":7}}],"verify":true}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS,"id":"first"}],"dryRun":true}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS,"orElse":null}],"trace":"full"}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS,"when":"true","timeoutMs":1000,"retry":{"max":2,"backoffMs":1}}],"trace":"none"}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS,"forEach":"[1,2]","concurrency":2,"select":"$result"}]}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS,"repeat":{"until":"true","max":2,"delayMs":0}}]}`},
	{"chain", `{"steps":[{"chain":{"steps":[{"fn":"FN","args":ARGS}],"return":"$0"},"args":{}}]}`},
	{"chain", `{"steps":[{"chain":{"steps":[{"chain":{"steps":[{"fn":"FN","args":ARGS}]}}]},"forEach":"[1]"}],"onError":"continue"}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS},{"fn":"FN","args":ARGS}],"onError":"continue","return":{"a":"$0","b":"$1"}}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS},{"fn":"FN","args":{"OKARG":"$0.items"}}],"common":{"repoId":"r"},"budget":{"maxTotalTokens":2000,"maxSteps":9,"maxCalls":9,"maxDurationMs":9000}}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":{"OKARG":"FN","subject":"$input.fn"}}],"input":{"fn":"FN"},"params":{"fn":{"type":"string"}}}`},
	{"chain", `{"steps":[{"fn":"$input.fn","args":ARGS}],"input":{"fn":"FN"}}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS,"undo":{"fn":"FN","args":ARGS}}],"onError":"undo"}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS}],"resume":"r","replace":{"0":{"fn":"FN"}},"assume":{"0":"applied"},"approve":"a"}`},
	{"chain", `{"replace":{"0":{"fn":"FN","args":ARGS}},"resume":"TOKEN"}`},
	{"chain", `{"replace":{"0":{"fn":"FN","args":ARGS}},"resume":"OTHERRUN"}`},
	{"chain", `{"key":"k","steps":[{"fn":"FN","args":ARGS}]}`},
	{"chain", `{"name":"FN","description":"FN","version":"1","steps":[{"fn":"OKFN","args":OKARGS,"id":"a"}],"return":"$a.FN"}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS,"select":"$result.FN"}]}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS,"as":"FN"}],"FN":1}`},
	{"chain", `{"repoId":"r","steps":[{"fn":"FN","args":ARGS}]}`},
	{"chain", `{"steps":[{"expr":"[1,2]"},{"fn":"FN","args":ARGS,"repeat":{"until":"true","max":2,"collect":"[$result]"}}]}`},
	{"chain", `{"fn":"FN","args":ARGS}`},
	{"chain", `{"steps":[{"fn":"chain.SAVED"},{"fn":"SAVED","args":{"FN":1}}]}`},
	{"chain", `{"steps":[{"fn":"chain.SAVED","forEach":"[1]"}],"dryRun":true,"tool":true,"prompt":true}`},
}

// knownPaths are tried once with each function that the caller may use. The answers must not reveal other functions.
var knownPaths = []matrixPath{
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS}],"trace":"full","verify":true,"format":"auto","ifChanged":true}`},
	{"chain", `{"steps":[{"fn":"FN","args":ARGS}],"async":false,"asyncAfterMs":60000}`}, {"chain", `{"steps":[{"fn":"FN","args":ARGS}],"async":true,"dryRun":true,"durable":true}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS}],"dryRun":true,"trace":"full"}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":{"OKARG":"plain","fail":true}}]}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":{"OKARG":"none of them","fail":"x"}}]}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":{"OKARG":"plain","count":400}}],"lite":true}`},
	{"chain", `{"steps":[{"fn":"OKFN","args":OKARGS},{"fn":"OKFN","args":{"OKARG":"$0.itmes"}}]}`},
	{"chain", `{"steps":[{"fn":"OKNEAR","args":OKARGS}]}`},
	{"chain", `{"steps":[{"fn":"OKACTION","args":OKARGS}]}`},
	{"search", `{"query":"OKACTION"}`},
	{"search", `{"names":["OKFN"],"schema":true}`},
	{"search", `{"names":["OKNEAR","OKFN"],"again":true}`},
	{"DISPATCHER", `{"resource":"OKRESOURCE","action":"OKACTION","params":OKARGS}`},
	{"DISPATCHER", `{"resource":"OKRESOURCE","action":"OKNEARACTION","params":OKARGS}`},
	{"DISPATCHER", `{"action":"help","params":{"resource":"OKRESOURCE","action":"OKACTION"},"schema":true}`},
	{"OKFLAT", `OKARGS`},
	{"OKFLAT", `{"OKARG":"plain","fail":true}`},
	{"OKFLAT", `{"OKARG":7}`},
	{"OKNEARFLAT", `OKARGS`},
}

// lookups are tried with each hidden function.
var lookups = []matrixPath{
	{"search", `{"query":"WORD"}`},
	{"search", `{"query":"FN","schema":true}`},
	{"search", `{"names":["FN"]}`},
	{"search", `{"names":["FN","OKFN"],"schema":true,"again":true}`},
	{"search", `{"names":["FN"],"lite":true}`},
	{"search", `{"names":["chain.SAVED","SAVED"],"schema":true}`},
	{"info", `{"FN":1}`},
}

// generalPaths name no function.
var generalPaths = []matrixPath{
	{"search", `{}`}, {"search", `{"query":"looks after a thing"}`}, {"search", `{"query":"looks after a thing","page":2}`}, {"search", `{"query":"looks after a thing","page":3,"lite":true}`},
	{"search", `{"query":"thing","page":99}`}, {"search", `{"query":"thing","schema":true}`}, {"search", `{"names":["chain","search","info"],"schema":true}`}, {"search", `{"names":["chain"]}`},
	{"search", `{"names":["open","crate.open","crateOpen","crate"]}`}, {"search", `{"query":"crate open while it takes"}`}, {"search", `{"query":"q"}`}, {"search", `{"query":7,"names":8,"x":9}`},
	{"info", `{}`}, {"info", `{"lite":true}`}, {"info", `{"lite":"x"}`}, {"info", `{"runs":true}`}, {"info", `{"runs":true,"lite":true}`}, {"info", `{"runs":"OTHERRUN"}`}, {"info", `{"run":"OTHERRUN"}`},
	{"chain", `{"steps":[{"fn":"crate.open"},{"fn":"open"},{"fn":"crateOpen"},{"fn":"pen"},{"fn":"part"},{"fn":"thing"}]}`},
	{"chain", `{"resume":"OTHERRUN"}`}, {"chain", `{"resume":"OTHERRUN","dryRun":true}`}, {"chain", `{"resume":"OTHERRUN","undo":true}`}, {"chain", `{"resume":"OTHERRUN","approve":"a"}`},
	{"chain", `{"resume":"OTHERRUN","assume":{"0":"applied"}}`}, {"chain", `{"key":"k","steps":[{"expr":"1"}]}`},
	{"chain", `{"steps":[]}`}, {"chain", `{}`}, {"chain", `{"stesp":[]}`},
	{"chain", `{"continuation_token":"TOKEN","mode":"full"}`}, {"chain", `{"continuation_token":"TOKEN","mode":"paginated","page":1,"page_size":2}`},
	{"chain", `{"continuation_token":"TOKEN","mode":"filtered","filter_keys":["items"],"lite":true}`}, {"chain", `{"continuation_token":"TOKEN","mode":"query","query":"$result.items","budget":{"maxTotalTokens":500}}`},
	{"chain", `{"continuation_token":"TOKEN"}`}, {"chain", `{"continuation_token":"TOKEN","mode":"nonsense"}`},
	{"search", `{"continuation_token":"TOKEN","mode":"full"}`}, {"info", `{"params":{"continuation_token":"TOKEN","mode":"full"}}`},
	{"DISPATCHER", `{"continuation_token":"TOKEN","mode":"full"}`}, {"DISPATCHER", `{"continuation_token":"TOKEN","mode":"query","query":"$result","page":1,"page_size":1,"filter_keys":["a"]}`}, {"DISPATCHER", `{"params":{"continuation_token":"TOKEN","mode":"query","query":"$result","page":1,"page_size":1,"filter_keys":["a"]}}`},
	{"OKFLAT", `{"continuation_token":"TOKEN","mode":"full"}`},
	{"DISPATCHER", `{}`}, {"DISPATCHER", `{"action":"help"}`}, {"DISPATCHER", `{"action":"help","lite":true,"budget":{"maxTotalTokens":300}}`}, {"DISPATCHER", `{"action":"help","schema":true,"again":true}`},
	{"DISPATCHER", `{"resource":"thing"}`}, {"DISPATCHER", `{"resource":"par"}`}, {"DISPATCHER", `{"action":"explain","params":{"resource":"crate"}}`}, {"DISPATCHER", `{"action":"open","params":{}}`},
	{"DISPATCHER", `{"action":"nothing"}`}, {"DISPATCHER", `{"count":1}`}, {"DISPATCHER", `{"resource":"part","count":1}`}, {"DISPATCHER", `{"action":"help","nonsense":true}`},
	{"onecall_approval", `{"run":"OTHERRUN","approve":"a","allow":["0"],"deny":["1"],"reason":"r"}`},
	{"nothing", `{}`}, {closedGroup, `{}`}, {closedGroup, `{"action":"help"}`},
}

// groupPaths are tried with each hidden function at each dispatcher.
var groupPaths = []matrixPath{
	{"DISPATCHER", `{"action":"ACTION","params":ARGS}`},
	{"DISPATCHER", `{"resource":"RESOURCE","action":"ACTION","params":ARGS,"lite":true}`},
	{"DISPATCHER", `{"resource":"RESOURCE","action":"ACTION","subject":"s1","verify":true,"repoId":"r"}`},
	{"DISPATCHER", `{"action":"FN","params":{"wrong":1}}`},
	{"DISPATCHER", `{"resource":"RESOURCE"}`},
	{"DISPATCHER", `{"action":"help","params":{"resource":"RESOURCE","action":"ACTION"}}`},
	{"DISPATCHER", `{"action":"explain","resource":"RESOURCE","schema":true}`},
}

// flatPaths are tried with each hidden function.
var flatPaths = []matrixPath{
	{"FLAT", `ARGS`},
	{"FLAT", `{"wrong":1,"verify":true,"lite":true}`},
	{"FLAT", `{"params":{"continuation_token":"TOKEN"}}`},
	{"FN", `ARGS`},
	{"SAVED", `{}`},
	{"chain_SAVED", `{}`},
	{"ACTION", `ARGS`},
}

// variants are ways to spell a function's name.
var variants = []func(name string) string{
	func(name string) string { return name },
	func(name string) string { return strings.ReplaceAll(name, ".", "_") },
	strings.ToUpper,
	func(name string) string { return name[:len(name)-1] }, // almost the name
	func(name string) string { _, tail, _ := strings.Cut(name, "."); return tail },
	camelName,
	func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] },
	func(name string) string { return strings.ReplaceAll(name, ".", "/") },
	func(name string) string { return name + "s" },
	func(name string) string { return name[1:] },
	swapped,
}

// swapped swaps the last two letters of a name.
func swapped(name string) string {
	b := []byte(name)
	b[len(b)-2], b[len(b)-1] = b[len(b)-1], b[len(b)-2]
	return string(b)
}

func camelName(name string) string {
	up := false
	return strings.Map(func(c rune) rune {
		defer func() { up = c == '.' }()
		switch {
		case c == '.':
			return -1
		case up:
			return unicode.ToUpper(c)
		}
		return c
	}, name)
}

// filled returns the path with its placeholders filled in for a hidden function and one that the caller may use; either may be nil. n
// chooses the spelling and the word.
func (p matrixPath) filled(hidden, known *matrixFunction, token string, n int) matrixPath {
	var pairs []string
	if hidden != nil {
		name := hidden.Spec.Name
		segments := strings.Split(name, ".")
		word := hidden.mark(n % marksWidth)
		if n%2 == 1 {
			word = word[:len(word)-1]
		}
		pairs = append(pairs, "RESOURCE", strings.Join(segments[1:len(segments)-1], "."), "ACTION", variants[n%2*3](segments[len(segments)-1]), "ARGS",
			hidden.validArgs(),
			"FLAT", flatNameOf(hidden), "SAVED", hidden.mark(inChain), "WORD", word, "FN", variants[n%len(variants)](name))
	}
	var knownPairs []string
	if known != nil {
		name := known.Spec.Name
		segments := strings.Split(name, ".")
		action := segments[len(segments)-1]
		knownPairs = []string{"OKRESOURCE", strings.Join(segments[1:len(segments)-1], "."), "OKNEARACTION", action[:len(action)-1],
			"OKACTION", action,
			"OKARGS", known.validArgs(), "OKARG", known.mark(inArgument),
			"OKNEARFLAT", variants[3](flatNameOf(known)), "OKFLAT", flatNameOf(known), "OKNEAR", variants[[]int{3, 8, 9, 10}[n%4]](name), "OKFN", name}
	}
	r := strings.NewReplacer(append(knownPairs, append(pairs, "TOKEN", token)...)...)
	return matrixPath{r.Replace(p.tool), r.Replace(p.text)}
}

// flatNameOf returns the name of a function's flat tool.
func flatNameOf(m *matrixFunction) string {
	if m.listed && m.oldName == "" {
		_, tail, _ := strings.Cut(m.Spec.Name, ".")
		if !strings.Contains(tail, ".") {
			return tail
		}
	}
	return strings.ReplaceAll(m.Spec.Name, ".", "_")
}

// protocolPaths returns the params of requests other than tools/call, by method. FN and WORD are as in a matrixPath.
func protocolPaths() map[string][]string {
	uri := func(what string) string { return fmt.Sprintf(`{"uri":%q}`, what) }
	return map[string][]string{
		"ping":                     {`{}`},
		"server/discover":          {`{}`},
		"tools/list":               {`{}`, `{"cursor":"MTAgdG9vbHM"}`},
		"resources/list":           {`{}`, `{"cursor":"FN"}`, `{"cursor":"MQ"}`},
		"resources/templates/list": {`{}`, `{"cursor":"FN"}`},
		"resources/read":           {uri("only://FN"), uri("FN://7/data"), uri("same://thing"), uri("ui://onecall/approval"), uri("only://HIDDENUPSTREAM"), uri("HIDDENUPSTREAM://7/data"), `{"uri":"more://HIDDENUPSTREAM","inputResponses":{},"requestState":"FN"}`},
		"resources/subscribe":      {uri("only://HIDDENUPSTREAM"), uri("same://thing")},
		"resources/unsubscribe":    {uri("only://HIDDENUPSTREAM"), uri("same://thing")},
		"prompts/list":             {`{}`, `{"cursor":"FN"}`},
		"prompts/get":              {`{"name":"same","arguments":{"a":"FN"}}`, `{"name":"only_HIDDENUPSTREAM"}`, `{"name":"HIDDENUPSTREAM_same","inputResponses":{},"requestState":"WORD"}`, `{"name":"FN"}`, `{"name":"SAVED"}`},
		"completion/complete": {
			`{"ref":{"type":"ref/prompt","name":"only_HIDDENUPSTREAM"},"argument":{"name":"a","value":"WORD"}}`,
			`{"ref":{"type":"ref/prompt","name":"same"},"argument":{"name":"a","value":"q"},"context":{"arguments":{"FN":"x"}}}`,
			`{"ref":{"type":"ref/resource","uri":"HIDDENUPSTREAM://{id}/data"},"argument":{"name":"id","value":"1"}}`,
			`{"ref":{"type":"ref/tool","name":"FN"},"argument":{"name":"action","value":"q"}}`,
		},
		"logging/setLevel":                 {`{"level":"debug"}`, `{"level":"FN"}`},
		"notifications/cancelled":          {`{"requestId":"FN","reason":"FN"}`},
		"notifications/progress":           {`{"progressToken":"FN","progress":1,"total":2,"message":"FN"}`},
		"notifications/roots/list_changed": {`{}`},
		"notifications/initialized":        {`{}`},
		"FN":                               {`{}`},
		"tools/FN":                         {`{"name":"FN"}`},
		"tools/call":                       {`{"name":"FN","arguments":{}}`, `{"name":"","arguments":{}}`, `{"name":"chain"}`, `{"name":"chain","arguments":{"steps":[{"fn":"FN"}]},"inputResponses":{},"requestState":"FN"}`},
	}
}

// closedGroup is a group of functions that only the administrator may use.
var closedGroup = sourceWord(11)
