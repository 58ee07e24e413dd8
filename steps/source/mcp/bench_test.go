package mcp_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// connectBare connects the SDK's own client to the same kind of server.
func connectBare(b *testing.B, o *mcpsource.Options) *sdk.ClientSession {
	b.Helper()
	var transport sdk.Transport = &sdk.StreamableClientTransport{Endpoint: o.URL}
	if o.URL == "" {
		cmd := exec.Command(o.Command)
		cmd.Env = append(os.Environ(), serverEnv+"=good")
		transport = &sdk.CommandTransport{Command: cmd}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "bare", Version: "0"},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}}).
		Connect(b.Context(), transport, &sdk.ClientSessionOptions{ProtocolVersion: o.Protocol})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = session.Close() })
	return session
}

// BenchmarkAgainstBareClient makes ten calls one after another, alternately through the source and with the SDK's client alone, and reports
// the median ratio of their times.
func BenchmarkAgainstBareClient(b *testing.B) {
	for _, name := range []string{"stdio", "stdio 2025-11-25", "http stateless", "http json", "http sessions"} {
		b.Run(name, func(b *testing.B) {
			o := transports[name](b)
			session := connectBare(b, o)
			s := openReady(b, o)
			fn := function(b, s, "shelf.get")
			args := json.RawMessage(`{"name":"a"}`)
			ours := func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
					if result, err := fn.Call(ctx, args); err != nil || len(result) != len(`{"name":"a","n":12345678901234567890,"x":1.50}`) {
						b.Fatalf("got %s, %v, want {\"name\":\"a\",\"n\":12345678901234567890,\"x\":1.50}", result, err)
					}
					cancel()
				}
			}
			theirs := func() {
				for range 10 {
					ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
					result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "get", Arguments: args})
					if err != nil || result.StructuredContent == nil {
						b.Fatalf("got %+v, %v; want structured content", result, err)
					}
					cancel()
				}
			}
			timed := func(f func()) time.Duration {
				start := time.Now()
				f()
				return time.Since(start)
			}
			for range 20 {
				ours()
				theirs()
			}
			var ratios []float64
			var base, measured []time.Duration
			for b.Loop() {
				t, u := timed(theirs), timed(ours)
				base, measured = append(base, t), append(measured, u)
				ratios = append(ratios, float64(u)/float64(t))
			}
			slices.Sort(ratios)
			slices.Sort(base)
			slices.Sort(measured)
			b.ReportMetric(ratios[len(ratios)/2], "ratio")
			b.ReportMetric(float64(base[len(base)/2].Microseconds())/10, "bare-µs/call")
			b.ReportMetric(float64(measured[len(measured)/2].Microseconds())/10, "own-µs/call")
		})
	}
}
