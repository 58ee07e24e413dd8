package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// replayChains are chains whose answers depend on the configuration.
var replayChains = []string{
	`{"repo":"r1","steps":[{"fn":"http.echo","args":{"text":"a"}},{"fn":"http.count"}],"return":["$0","$1"]}`,
	`{"repo":"r1","steps":[{"fn":"http.echo"},{"fn":"http.echo","when":"$0.n != 0"}]}`,
	`{"steps":[{"fn":"http.echo","args":{"words":"b"}},{"fn":"http.make","args":{"name":"x"}},{"fn":"http.fail"}],"onError":"undo"}`,
	`{"steps":[{"fn":"http.make","args":{"name":"x"}}]}`,
	`{"steps":[{"fn":"expr.eval","args":{"expression":"1..2000"}}]}`,
	`{"steps":[{"expr":"1..30"},{"fn":"http.count","forEach":"$0","concurrency":1}],"trace":"full"}`,
	`{"steps":[{"fn":"expr.eval"},{"fn":"text.match","args":{"text":"a1","pattern":"[0-9]"}}],"return":["$0","$1"]}`,
	`{"steps":[{"fn":"http.costly","args":{"topic":"t"}},{"fn":"http.count"}],"onError":"continue"}`,
	`{"steps":[{"fn":"http.make","args":{"name":"x"}},{"fn":"http.count"}],"return":["$0.body.id","$1.headers.content-type","$1.body?.n"]}`,
	`{"steps":[{"fn":"http.echo","args":{"text":"a"}},{"fn":"http.make","args":{"name":"${$0.n}"}}]}`,
	`{"budget":{"maxTotalTokens":100000},"steps":[{"fn":"renamed.echo","args":{"text":"a"}}]}`,
}

// replaySettings are alternatives for lines of a configuration; the first is to have none.
var replaySettings = [][]string{
	{"", "hoist: [repo]", "hoist: [repo, team]"},
	{"", "lite: true"},
	{"", "aliases: {words: text}"},
	// No answer but the 2,000 numbers comes near these limits: ids and times, which differ, may cost a token more or less.
	{"", "budget: {maxTotalTokens: 2000}", "budget: {maxCalls: 20, maxTotalTokens: 3000}", "budget: {maxSteps: 2}",
		"budget: {maxDurationMs: 600000}"},
	{"", "limits: {maxElements: 10}", "limits: {maxResultBytes: 4KB, maxConcurrency: 3}"},
	{"", "tokens: {factor: 1.5}"},
	{"results: {store: memory}", "results: {store: memory, probeAbove: 20, pageSize: 3}", "results: {store: memory, leanAbove: 5}"},
	{"", "ladder: {mode: warn, subject: topic, rungs: [http.count, http.make, http.costly]}",
		"ladder: {mode: enforce, subject: topic, rungs: [http.count, http.make, http.costly]}"},
	{"functions: {}",
		`functions: {http.echo: {defaults: {text: given, repo: d}, rename: renamed.echo}}`,
		`functions: {"http.*": {timeoutMs: 5000, heavy: always}, expr.eval: {defaults: {expression: "6*7"}, heavy: never}}`,
		`functions: {http.make: {undo: {fn: http.drop, args: {id: $result.id}}, idempotencyKey: {arg: key}}, http.echo: {effect: write}}`,
		`functions: {"http.*": {result: response}, http.count: {output: ignore}}`,
		`functions: {http.echo: {fields: text, answer: {keep: [n]}}, http.count: {answer: {drop: [n]}}, expr.eval: {answer: {top: 3}}}`,
		`functions: {http.echo: {gives: {"$result.n": [outside]}}, http.make: {takes: {"*": content}}}` + "\n" +
			`flows: {rules: [{from: outside, to: write, do: warn}]}`,
		`functions: {http.count: {cacheTtl: 1h}, http.echo: {aliases: {words: text}}, expr.eval: {effect: write, defaults: {expression: "1"}}}`},
}

// TestReplayNeedsNoConfiguration checks that a replay with an empty configuration answers as the recorded run did, whatever the
// configuration of that run was.
func TestReplayNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	url := countingService(t)
	rapid.Check(t, func(rt *rapid.T) {
		lines := []string{"journal: {store: memory}", "shapes: off", fmt.Sprintf(replayEndpoints, url)}
		for _, alternatives := range replaySettings {
			lines = append(lines, rapid.SampledFrom(alternatives).Draw(rt, "setting"))
		}
		request := rapid.SampledFrom(replayChains).Draw(rt, "chain")
		folder := t.TempDir()
		tape := filepath.Join(folder, "tape.jsonl")
		full := write(t, folder, "full.yaml", strings.Join(lines, "\n"))
		empty := write(t, folder, "empty.yaml", "journal: {store: memory}\nshapes: off\nresults: {store: memory}\n")
		run := answerFor(t, &Options{Config: full, Record: tape}, request)
		if strings.Contains(run, `"code":"compile"`) {
			rt.Skip("the chain does not compile")
		}
		if replayed := answerFor(t, &Options{Config: empty, Replay: tape}, request); replayed != run {
			rt.Fatalf("configuration:\n%s\nchain: %s\nthe replay answers\n%s\nwant\n%s\nrecording:\n%s", strings.Join(lines, "\n"), request, replayed,
				run, read(t, tape))
		}
	})
}

// replayEndpoints are the functions of countingService.
const replayEndpoints = `http:
  endpoints:
    echo: {method: POST, effect: read, url: "%[1]s/echo", body: $input,
      input: {type: object, properties: {text: {type: string}, repo: {type: string}, topic: {type: string}}, additionalProperties: false}}
    count: {url: "%[1]s/count", output: {type: object, properties: {n: {type: string}}}}
    costly: {url: "%[1]s/costly", input: {type: object, properties: {topic: {type: string}}}}
    make: {method: POST, url: "%[1]s/make", body: $input, input: {type: object, properties: {name: {type: string}, key: {type: string}}}}
    drop: {method: DELETE, url: "%[1]s/drop/{id}", input: {type: object, required: [id], properties: {id: {type: integer}}}}
    fail: {url: "%[1]s/fail"}`

// countingService starts a service with the functions of replayEndpoints, whose answers differ each time, and returns its URL.
func countingService(t *testing.T) string {
	var count atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		switch n := count.Add(1); r.URL.Path {
		case "/echo":
			fmt.Fprintf(w, `{"n":%d,"got":%s,"more":"some words to fill an answer"}`, n, body)
		case "/make":
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"id":%d,"name":"made","text":"some more words to fill an answer with"}`, n)
		case "/fail":
			http.Error(w, `{"reason":"no"}`, http.StatusTeapot)
		default:
			fmt.Fprintf(w, `{"n":%d}`, n)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answerFor returns the answer of one process to a request, without what differs from run to run.
func answerFor(t *testing.T, o *Options, request string) string {
	t.Helper()
	o.Reporter, o.Redactor, o.Calls = silent{}, &Redactor{}, true
	a, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	answer := string(a.Run(t.Context(), []byte(request), nil).JSON)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return variable.ReplaceAllString(answer, `"$1":0`)
}

// variable matches the members of an answer that differ from run to run: times, tokens that fetch a result, ids of runs, and the counts of
// tokens, which depend on them.
var variable = regexp.MustCompile(`"(ms|tokens|continuation_token|run|expires|resume)":("[^"]*"|[0-9.]+)`)
