package bench

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/chain/journal/sqljournal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// inSQLite is a journal in a file of the benchmark's.
func inSQLite(b *testing.B) *journal.Journal {
	driver, err := sqljournal.OpenSQLite(filepath.Join(b.TempDir(), "journal.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	j, err := journal.New(driver, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { j.Close() })
	return j
}

// BenchmarkJournal compares with a journal and without one: ten reads that do nothing, in process and over HTTP; and the resume of a hundred
// steps of which the last failed with its last step alone.
func BenchmarkJournal(b *testing.B) {
	request := []byte(`{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`)
	b.Run("reads/process", func(b *testing.B) {
		run := func(e *chain.Engine) arm {
			return func(b *testing.B, n int) {
				for range n {
					if a := e.Run(b.Context(), request, nil); string(a.JSON) != `{"ok":1}` {
						b.Fatalf("%s", a.JSON)
					}
				}
			}
		}
		compare(b, 15, 500, run(journaled(b, nil, nothing())), run(journaled(b, inSQLite(b), nothing())))
	})
	b.Run("reads/http", func(b *testing.B) {
		call := func(j *journal.Journal) arm {
			url := serveLoad(b, &serverOptions{functions: []steps.Function{nothing()}, journal: j})
			client := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
			session, err := client.Connect(b.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { session.Close() })
			return func(b *testing.B, n int) {
				for range n {
					result, err := session.CallTool(b.Context(), &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(request)})
					if err != nil || result.Content[0].(*sdk.TextContent).Text != `{"ok":1}` {
						b.Fatal(result, err)
					}
				}
			}
		}
		compare(b, 15, 300, call(nil), call(inSQLite(b)))
	})
	b.Run("resume", benchmarkResume)
}

func journaled(b *testing.B, j *journal.Journal, functions ...steps.Function) *chain.Engine {
	registry, err := steps.NewRegistry(functions, nil)
	if err != nil {
		b.Fatal(err)
	}
	engine, err := chain.New(&chain.Options{Functions: registry, Journal: j})
	if err != nil {
		b.Fatal(err)
	}
	return engine
}

// benchmarkResume counts only the resumes, each of which makes one call.
func benchmarkResume(b *testing.B) {
	broken := true
	last := steps.Function{Spec: steps.Spec{Name: "bench.last"}, Prompt: true, Call: func(context.Context, []byte) ([]byte, error) {
		if broken {
			return nil, fault.New(fault.FunctionFailed, "not yet")
		}
		return []byte(`{"ok":1}`), nil
	}}
	engine := journaled(b, inSQLite(b), nothing(), last)
	var list []string
	for range 99 {
		list = append(list, `{"fn":"bench.noop"}`)
	}
	request := []byte(`{"steps":[` + strings.Join(append(list, `{"fn":"bench.last"}`), ",") + `]}`)
	for b.Loop() {
		b.StopTimer()
		broken = true
		resume := gjson.GetBytes(engine.Run(b.Context(), request, nil).JSON, "resume").Str
		broken = false
		b.StartTimer()
		if a := engine.Run(b.Context(), []byte(`{"lite":true,"resume":"`+resume+`"}`), nil); string(a.JSON) != `{"ok":1}` {
			b.Fatalf("%s", a.JSON)
		}
	}
}
