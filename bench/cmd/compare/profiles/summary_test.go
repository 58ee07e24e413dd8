package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

func TestComponentOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stack, component, function string }{
		{"runtime.memmove github.com/onecall-mcp/onecall/chain.(*Engine).Run net/http.x", "onecall's chain", "chain.(*Engine).Run"},
		{"json.Unmarshal github.com/modelcontextprotocol/go-sdk/mcp.decode github.com/onecall-mcp/onecall/mcp.x", "MCP SDK", "go-sdk/mcp.decode"},
		{"runtime.scan runtime.gcAssistAlloc1 github.com/onecall-mcp/onecall/chain.x", collector, ""},
		{"runtime.futex runtime.findRunnable", scheduler, ""},
		{"github.com/onecall-mcp/onecall/steps/source/mcp.call", "onecall's MCP client", "steps/source/mcp.call"},
	} {
		if component, function := componentOf(strings.Fields(c.stack)); component != c.component || function != c.function {
			t.Errorf("%s: got %s, %s, want %s, %s", c.stack, component, function, c.component, c.function)
		}
	}
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cpu.prof")
	write := func(values ...int64) {
		p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
		for i, name := range []string{modulePrefix + "chain.run", "runtime.findRunnable"} {
			f := &profile.Function{ID: uint64(i) + 1, Name: name}
			l := &profile.Location{ID: uint64(i) + 1, Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{l}, Value: []int64{1, values[i]}})
		}
		to, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if err := p.Write(to); err != nil {
			t.Fatal(err)
		}
	}
	write(3000, 1000)
	s, err := summarize(file, "cpu.txt", "cpu")
	if err != nil || s.components["onecall's chain"] != 0.75 || s.components[scheduler] != 0.25 || len(s.heaviest) != 1 ||
		s.heaviest[0].name != "chain.run" {
		t.Fatalf("got %+v, %v, want 0.75 in the chain, 0.25 in the scheduler, chain.run heaviest", s, err)
	}
	s.title, s.chains = "10 no-ops", 2
	if text := string(readme([]summary{s})); !strings.Contains(text, "| [10 no-ops](cpu.txt) | 2 µs | 0 % | 25 % | 75 % |") {
		t.Errorf("the page lacks the row of the profile:\n%s", text)
	}
	if _, err := summarize(file, "", "alloc_space"); err == nil {
		t.Error("summarize returned no error for missing samples")
	}
	write(0, 0)
	if _, err := summarize(file, "", "cpu"); err == nil {
		t.Error("summarize returned no error for an empty profile")
	}
	if _, err := summarize(filepath.Join(t.TempDir(), "none"), "", "cpu"); err == nil {
		t.Error("summarize returned no error for a missing file")
	}
}
