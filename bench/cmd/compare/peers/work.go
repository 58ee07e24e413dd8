package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
)

// language is what a model writes programs in.
type language string

const (
	oneByOne   language = "calls" // no program: the client makes each call, and the model writes each
	chainJSON  language = "JSON"
	starlark   language = "Starlark"
	javascript language = "TypeScript"
)

// work is a task, as a model would write it for each arm. Its answer is JSON, which is checked.
type work struct {
	key, title string
	want       string              // the expected answer, as compact JSON
	clients    int                 // how many clients do the work at the same time; 0: one
	builtin    bool                // the work needs functions of the gateway itself
	programs   map[language]string // what a model writes for the work
	// bare does the work by calls one by one; nil: such calls cannot do it.
	bare func(context.Context, *harness.Session) (answer any, err error)
}

// works are measured in this order.
var works = []work{
	{key: "empty", title: "empty program", want: "1", programs: map[language]string{
		chainJSON: `{"steps":[{"expr":"1"}],"lite":true}`, starlark: `return 1`, javascript: `return 1`}},
	{key: "noop10", title: "10 no-op steps of the gateway's own", want: tenFrom(0), builtin: true, programs: map[language]string{
		chainJSON:  tenSteps(`{"fn":"expr.eval","args":{"expression":"%d"}}`, ""),
		javascript: "return await Promise.all(Array.from({length: 10}, (_, n) => tools.own({n})))"}},
	{key: "calls10", title: "10 no-op calls upstream", want: tenFrom(0), programs: sideBySide("noop"), bare: calls("noop", 10, false)},
	{key: "dependent3", title: "3 dependent calls", want: "3", programs: dependentPrograms(3), bare: calls("next", 3, true)},
	{key: "dependent10", title: "10 dependent calls", want: "10", programs: dependentPrograms(10), bare: calls("next", 10, true)},
	{key: "reads10", title: "10 independent reads of 20 ms", want: tenFrom(1), programs: sideBySide("slow"), bare: calls("slow", 10, false)},
	{key: "clients16", title: "16 clients, each 10 dependent calls", want: "10", clients: 16,
		programs: dependentPrograms(10), bare: calls("next", 10, true)},
}

// dependentPrograms returns programs that call next n times, each time with the result of the call before.
func dependentPrograms(n int) map[language]string {
	steps, calls := []string{`{"fn":"bench.next","args":{"n":0}}`}, []string{`{"name":"next","arguments":{"n":0}}`}
	for i := range n - 1 {
		steps = append(steps, fmt.Sprintf(`{"fn":"bench.next","args":{"n":"$%d.n"}}`, i))
		calls = append(calls, fmt.Sprintf(`{"name":"next","arguments":{"n":%d}}`, i+1))
	}
	return map[language]string{
		oneByOne:   strings.Join(calls, "\n"),
		chainJSON:  fmt.Sprintf(`{"steps":[%s],"return":"$%d.n","lite":true}`, strings.Join(steps, ","), n-1),
		starlark:   fmt.Sprintf("n = 0\nfor i in range(%d):\n  n = bench_next(n=n)[\"n\"]\nreturn n", n),
		javascript: fmt.Sprintf("let n = 0\nfor (let i = 0; i < %d; i++) n = (await tools.bench_next({n})).n\nreturn n", n),
	}
}

// sideBySide returns programs that make ten independent calls, with 0 to 9, and return all answers. Each language makes the calls at the
// same time.
func sideBySide(tool string) map[language]string {
	const script = "all = parallel([lambda n=n: bench_%s(n=n) for n in range(10)])\nreturn [one[\"n\"] for one in all]"
	const program = "const all = await Promise.all(Array.from({length: 10}, (_, n) => tools.bench_%s({n})))\nreturn all.map(one => one.n)"
	return map[language]string{
		oneByOne:   ten(fmt.Sprintf(`{"name":%q,"arguments":{"n":%%d}}`, tool), "\n", 0),
		chainJSON:  tenSteps(fmt.Sprintf(`{"fn":"bench.%s","args":{"n":%%d}}`, tool), ".n"),
		starlark:   fmt.Sprintf(script, tool),
		javascript: fmt.Sprintf(program, tool),
	}
}

// tenSteps returns a chain of ten steps, each with its own number. The chain returns member of each result; "": the whole result.
func tenSteps(step, member string) string {
	return `{"steps":[` + ten(step, ",", 0) + `],"return":[` + ten(`"$%d`+member+`"`, ",", 0) + `],"lite":true}`
}

// tenFrom returns a JSON array of ten consecutive numbers.
func tenFrom(first int) string { return "[" + ten("%d", ",", first) + "]" }

// ten formats ten consecutive numbers, and joins them with separator.
func ten(format, separator string, first int) string {
	all := make([]string, 10)
	for i := range all {
		all[i] = fmt.Sprintf(format, first+i)
	}
	return strings.Join(all, separator)
}

// calls returns a function that calls a tool several times, one call after the other: each with the answer of the call before, or with
// numbers from 0. The answer is the last one, or the list of all.
func calls(tool string, times int, dependent bool) func(context.Context, *harness.Session) (any, error) {
	return func(ctx context.Context, s *harness.Session) (any, error) {
		all, last := make([]int, times), 0
		for n := range all {
			if !dependent {
				last = n
			}
			text, err := s.Answer(ctx, tool, map[string]any{"n": last})
			if err != nil {
				return nil, err
			}
			var answer struct{ N int }
			if err := json.Unmarshal([]byte(text), &answer); err != nil { // as a program does
				return nil, fmt.Errorf("%s answers %.200s: %w", tool, text, err)
			}
			all[n], last = answer.N, answer.N
		}
		if dependent {
			return last, nil
		}
		return all, nil
	}
}

// workByKey returns the work with a key. It panics if there is none.
func workByKey(key string) *work {
	return &works[slices.IndexFunc(works, func(w work) bool { return w.key == key })]
}
