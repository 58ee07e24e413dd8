package work

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/load"
)

// Round is a question to a load generator: the number of clients, and the number of calls that they make together.
type Round struct {
	Clients int `json:"clients"`
	Calls   int `json:"calls"` // the number of calls; 0: clients are opened, and each makes one call that is not counted
}

// LoadResult is the answer to a Round.
type LoadResult struct {
	Rate   float64 `json:"rate"` // correct answers per second
	P50    float64 `json:"p50"`  // the median time of correct answers, in milliseconds
	P99    float64 `json:"p99"`
	Failed int     `json:"failed"`          // answers that are missing or wrong
	First  string  `json:"first,omitempty"` // the first error
}

// loadClients runs clients of a target, which is JSON, one round after the other, until its input ends.
func loadClients(ctx context.Context, text string, in io.Reader, out io.Writer) {
	var target load.Target
	harness.Check(json.Unmarshal([]byte(text), &target))
	clients := harness.Must(load.Open(ctx, target, 0))
	defer clients.Close()
	harness.Check(answerLines(in, out, func(r Round) any { return loadRound(ctx, clients, r) }))
}

// answerLines answers each question of in, a line of JSON, until in ends.
func answerLines[Q any](in io.Reader, out io.Writer, answer func(Q) any) error {
	questions, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q Q
		err := questions.Decode(&q)
		if err == nil {
			err = answers.Encode(answer(q))
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// loadRound runs one round. If not all of its clients can be opened, it makes no calls, and Failed is the number of clients that are
// missing.
func loadRound(ctx context.Context, clients *load.Clients, r Round) LoadResult {
	if err := clients.Grow(ctx, r.Clients); err != nil {
		return LoadResult{Failed: r.Clients - clients.Len(), First: err.Error()}
	}
	calls := r.Calls
	if calls == 0 {
		calls = r.Clients
	}
	began := time.Now()
	took, failed, first := clients.Run(ctx, r.Clients, calls)
	l := LoadResult{Rate: float64(len(took)) / time.Since(began).Seconds(), Failed: failed}
	if first != nil {
		l.First = first.Error()
	}
	if slices.Sort(took); len(took) > 0 {
		l.P50, l.P99 = milliseconds(took[len(took)/2]), milliseconds(took[len(took)*99/100])
	}
	return l
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }
