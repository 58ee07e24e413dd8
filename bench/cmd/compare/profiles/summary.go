package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// summary holds each component's share of a profile.
type summary struct {
	title, path string
	chains      int
	unit        string // the unit of total: "nanoseconds" or "bytes"
	total       float64
	components  map[string]float64 // shares of the total
	heaviest    []weight           // functions with the largest shares, in descending order
}

type weight struct {
	name  string
	share float64
}

// component is a group of packages. A sample is charged to the component of its innermost frame with one of these prefixes. The prefixes
// of onecall's packages lack modulePrefix.
type component struct {
	name     string
	prefixes []string
}

var components = []component{
	{"onecall's chain", []string{"chain.", "refs.", "budget.", "steps.", "steps/schema.", "internal/admit.", "internal/rawjson."}},
	{"onecall's MCP server", []string{"mcp.", "mcp/transport.", "internal/protocol."}},
	{"onecall's MCP client", []string{"steps/source/mcp."}},
	{"MCP SDK", []string{"github.com/modelcontextprotocol/go-sdk/", "github.com/segmentio/encoding/", "github.com/yosida95/"}},
	{"HTTP", []string{"net/http.", "net/http/internal.", "net/textproto.", "net/url."}},
}

// Components of the samples whose stack belongs to no other component.
const (
	collector = "garbage collection"
	scheduler = "scheduling and the rest"
)

// modulePrefix begins the names of onecall's functions.
const modulePrefix = "github.com/onecall-mcp/onecall/"

// componentOf returns the component that a stack, innermost frame first, is charged to, and the function of that component. The collector
// is charged with the garbage collector's background work, and with the work that it makes goroutines do.
func componentOf(stack []string) (name, function string) {
	for _, frame := range stack {
		for _, prefix := range []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge"} {
			if strings.HasPrefix(frame, prefix) {
				return collector, ""
			}
		}
	}
	for _, frame := range stack {
		frame = strings.TrimPrefix(frame, modulePrefix)
		for _, c := range components {
			if slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(frame, prefix) }) {
				return c.name, strings.TrimPrefix(frame, "github.com/modelcontextprotocol/")
			}
		}
	}
	return scheduler, ""
}

// summarize charges a profile's samples of one kind to components.
func summarize(file, path, sample string) (summary, error) {
	f, err := os.Open(file)
	if err != nil {
		return summary{}, err
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		return summary{}, err
	}
	at := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == sample })
	if at < 0 {
		return summary{}, fmt.Errorf("the profile has no samples of %s", sample)
	}
	s := summary{path: path, unit: p.SampleType[at].Unit, components: map[string]float64{}}
	functions := map[string]float64{}
	for _, one := range p.Sample {
		value := float64(one.Value[at])
		name, function := componentOf(frames(one))
		s.total += value
		s.components[name] += value
		if function != "" {
			functions[function] += value
		}
	}
	if s.total == 0 {
		return summary{}, fmt.Errorf("the profile of %s is empty", sample)
	}
	for name := range s.components {
		s.components[name] /= s.total
	}
	for name, value := range functions {
		if share := value / s.total; share >= 0.01 {
			s.heaviest = append(s.heaviest, weight{name, share})
		}
	}
	slices.SortFunc(s.heaviest, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.name, b.name))
	})
	s.heaviest = s.heaviest[:min(len(s.heaviest), 8)]
	return s, nil
}

// frames returns the functions of a sample's stack, innermost first, by package path and name.
func frames(s *profile.Sample) (stack []string) {
	for _, location := range s.Location {
		for _, line := range location.Line {
			stack = append(stack, line.Function.Name)
		}
	}
	return stack
}

// readme returns the page that shows what dominates each profile.
func readme(all []summary) []byte {
	var b bytes.Buffer
	b.WriteString(`# Profiles

<!-- Made by go -C bench/cmd/compare run ./profiles. -->

What a process with onecall spends while one client calls the same chain repeatedly over HTTP, on loopback. The process embeds onecall's
server as a Go program does: without the journal, the log and the limits of "onecall serve". The client and the MCP server behind the
dependent calls are other processes. Processor and allocations are profiled in separate runs. This command takes all profiles again:

    go -C bench/cmd/compare run ./profiles

A sample is charged to the innermost component in its stack: work that the SDK causes in its JSON library or in the runtime is the SDK's.

| profile | per chain |`)
	names := []string{collector, scheduler}
	for _, c := range components {
		names = append(names, c.name)
	}
	for _, name := range names {
		b.WriteString(" " + name + " |")
	}
	b.WriteString("\n" + strings.Repeat("|---", len(names)+2) + "|\n")
	for _, s := range all {
		fmt.Fprintf(&b, "| [%s](%s) | %s |", s.title, s.path, s.perChain())
		for _, name := range names {
			fmt.Fprintf(&b, " %.0f %% |", 100*s.components[name])
		}
		b.WriteString("\n")
	}
	b.WriteString("\nThe most expensive functions, including what they call:\n\n")
	for _, s := range all {
		fmt.Fprintf(&b, "- %s: ", s.title)
		for i, w := range s.heaviest {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "`%s` %.0f %%", w.name, 100*w.share)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// perChain returns the cost of one chain.
func (s *summary) perChain() string {
	one := s.total / float64(max(1, s.chains))
	if s.unit == "bytes" {
		return fmt.Sprintf("%.0f KB", one/1024)
	}
	return fmt.Sprintf("%.0f µs", one/1000)
}
