package bench

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// BenchmarkFlowRules compiles a chain of fifty steps, each of another function, without flow rules (baseline) and with 20 rules over
// functions of which each gives a label and takes a role. Target: at most 5 % slower.
func BenchmarkFlowRules(b *testing.B) {
	const functions, rules = 50, 20
	for _, withRules := range []bool{false, true} {
		name := "baseline=no-rules"
		if withRules {
			name = "20-rules"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			engine, request := labeledEngine(b, functions, rules, withRules), labeledChain(functions)
			caller := &chain.Caller{Override: chain.Override{Check: true, Trace: "none"}}
			for b.Loop() {
				if answer := engine.Run(context.Background(), request, caller); !answer.OK {
					b.Fatalf("got %s, want ok", answer.JSON)
				}
			}
		})
	}
}

// labeledChain returns a chain whose steps call functions in turn; each but the first refers to the one before it, by a path with a label
// and by one without.
func labeledChain(functions int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"steps":[{"fn":"labeled.f0","args":{"id":"x"}}`)
	for i := 1; i < functions; i++ {
		fmt.Fprintf(&b, `,{"fn":"labeled.f%d","args":{"id":"$%d.id","value":"$%d.value"}}`, i, i-1, i-1)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// labeledEngine returns an engine over functions whose labels and roles the rules name, and never catch together.
func labeledEngine(b *testing.B, functions, rules int, withRules bool) *chain.Engine {
	var list []steps.Function
	for i := range functions {
		fn := noop(noopSchema)
		fn.Name = fmt.Sprintf("labeled.f%d", i)
		fn.Gives, _ = steps.ParseGives(fmt.Appendf(nil, `{"$result.value":["label%d"]}`, i%rules))
		fn.Takes, _ = steps.ParseTakes(fmt.Appendf(nil, `{"id":"role%d","*":"other"}`, i%rules))
		list = append(list, fn)
	}
	registry, err := steps.NewRegistry(list, nil)
	if err != nil {
		b.Fatal(err)
	}
	o := chain.Options{Functions: registry}
	for i := range rules {
		if withRules {
			o.Flows = append(o.Flows, chain.FlowRule{From: fmt.Sprintf("label%d", i), To: fmt.Sprintf("role%d", (i+1)%rules), Do: "deny"})
		}
	}
	engine, err := chain.New(&o)
	if err != nil {
		b.Fatal(err)
	}
	return engine
}
