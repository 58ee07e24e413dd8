package work

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/load"
)

// TestMeasurements runs each measurement at a small size: every answer in it is checked.
func TestMeasurements(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size string
		want []string // the names of the samples
	}{
		"functions": {"250", []string{"ready-ms", "bare-ready-ms", "search-ms", "chain-ms", "list-tokens", "bare-list-tokens", "memory-mb"}},
		"steps":     {"12", []string{"chain-ms", "bare-ms", "lite-tokens", "full-tokens"}},
		"elements":  {"120", []string{"chain-ms", "bare-ms"}},
		"bytes":     {"100000", []string{"pass-ms", "probe-ms", "page-ms", "bare-ms", "size-mb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := Main(t.Context(), []string{name, c.size, "2"}, nil, &out); err != nil {
				t.Fatal(err)
			}
			var samples Samples
			if err := json.Unmarshal(out.Bytes(), &samples); err != nil {
				t.Fatal(err)
			}
			for _, sample := range c.want {
				if n := len(samples[sample]); n == 0 || strings.HasSuffix(sample, "e-ms") && n != 2 {
					t.Errorf("got %d samples of %s, want at least 1, and 2 if the name ends with e-ms", n, sample)
				}
			}
		})
	}
	for _, bad := range [][]string{nil, {"dance"}, {"steps", "10"}, {"steps", "ten", "1"}, {"load"}, {"load", "{"}} {
		if err := Main(t.Context(), bad, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("Main(%v) returned no error", bad)
		}
	}
}

// startServer runs a server until the test ends.
func startServer(t *testing.T, args ...string) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	questions, ask := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Main(ctx, args, questions, to)
		to.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := &Server{Process: &Process{questions: ask, answers: json.NewDecoder(from)}}
	if err := s.answers.Decode(&s.Addresses); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestServers calls both servers with both versions of MCP: the SDK's, and onecall's.
func TestServers(t *testing.T) {
	t.Parallel()
	bare, server := startServer(t, "bare"), startServer(t, "onecall")
	const result = `{"id":"a-1","value":7}`
	for _, version := range []string{load.WithSessions, load.WithoutSessions} {
		for _, target := range []load.Target{
			{URL: server.URL(version), Tool: "chain", Args: `{"lite":true,"steps":[{"fn":"bench.noop"},{"fn":"bench.noop"}]}`, Want: result},
			{URL: bare.URL(version), Tool: "noop", Args: `{}`, Want: result},
		} {
			target.Version = version
			text, err := json.Marshal(target)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			rounds := strings.NewReader(`{"clients":3,"calls":0}` + "\n" + `{"clients":3,"calls":20}` + "\n")
			if err := Main(t.Context(), []string{"load", string(text)}, rounds, &out); err != nil {
				t.Fatal(err)
			}
			answers := json.NewDecoder(&out)
			for range 2 {
				var l LoadResult
				if err := answers.Decode(&l); err != nil || l.Failed > 0 || l.Rate <= 0 || l.P50 <= 0 || l.P99 < l.P50 {
					t.Errorf("round of %s: got %+v, %v, want no failure, a rate, and percentiles in order", target.Tool, l, err)
				}
			}
		}
	}
}

// TestUpstream calls the tools that the arms of the comparison call.
func TestUpstream(t *testing.T) {
	t.Parallel()
	server := startServer(t, "upstream")
	for tool, want := range map[string]string{"noop": `{"n":1}`, "next": `{"n":2}`, "slow": `{"n":2}`} {
		for _, version := range []string{load.WithSessions, load.WithoutSessions} {
			target := load.Target{URL: server.URL(version), Version: version, Tool: tool, Args: `{"n":1}`, Want: want}
			clients, err := load.Open(t.Context(), target, 1)
			if err != nil {
				t.Fatal(err)
			}
			if took, failed, err := clients.Run(t.Context(), 1, 1); len(took) != 1 || failed > 0 {
				t.Errorf("%s of %s: %v, want %s", tool, version, err, want)
			}
			clients.Close()
		}
	}
	if u := server.Stats(); u.Goroutines < 2 {
		t.Errorf("got stats %+v, want at least 2 goroutines", u)
	}
}

// TestWrongAnswers: wrong answers are counted and reported.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	bare := startServer(t, "bare")
	target := load.Target{URL: bare.Stateless, Version: load.WithoutSessions, Tool: "noop", Args: `{}`, Want: `{}`}
	clients, err := load.Open(t.Context(), target, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	l := loadRound(t.Context(), clients, Round{Clients: 2, Calls: 5})
	if l.Failed != 5 || !strings.Contains(l.First, `a-1`) || l.P50 != 0 {
		t.Errorf("got %+v, want 5 failed calls with the first error", l)
	}
}
