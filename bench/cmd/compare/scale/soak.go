package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"gonum.org/v1/gonum/stat"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/bench/load"
)

const (
	soakClients = 4 // clients at a time
	// soakInterval is the time between two visits of a client. It is fixed: the server keeps the results of two seconds of visits, and
	// an interval that follows the machine's load would look like growth.
	soakInterval = 80 * time.Millisecond
)

// soak has clients connect, do something of each kind and leave, for a while, and watches what the server uses. It runs for five
// quarters of the soak's duration. The first of these does not count, because the server then makes what it makes only once.
func soak(ctx context.Context, b *harness.Bench) {
	if b.Short {
		return
	}
	duration := b.Soak
	b.Command += " -soak " + duration.String()
	server := worker(ctx, b).Serve(ctx, "onecall")
	defer server.Close()
	visits := &visits{server: server}
	limited, cancel := context.WithTimeout(ctx, duration+duration/4)
	defer cancel()
	var all sync.WaitGroup
	for i := range soakClients {
		all.Go(func() {
			ticker := time.NewTicker(soakInterval)
			defer ticker.Stop()
			for n := i; limited.Err() == nil; n++ {
				visits.run(limited, n)
				select {
				case <-ticker.C:
				case <-limited.Done():
				}
			}
		})
	}
	var lines []report.Line
	err := harness.Try(func() { lines = watch(limited, server, duration) })
	cancel()
	all.Wait()
	harness.Check(errors.Join(err, ctx.Err(), server.Close()))
	title := fmt.Sprintf("Use over %v of %s visits by %d clients at a time, each every %v", duration, number(int(visits.done.Load())),
		soakClients, soakInterval)
	b.Tables = append(b.Tables, soakTable(title, lines))
	b.Plots = append(b.Plots, report.Plot{Name: "scale-soak", Title: "Use over " + duration.String() + ", each of its mean", X: "minutes",
		Y: "of the mean", Lines: shares(lines)})
	_, heap := trend(lines[0].Points)
	b.Figure(report.Figure{Name: "soak-heap", Title: fmt.Sprintf("growth of the live heap over a soak of %v, of its mean", duration),
		Value: 100 * heap, Unit: "%", How: report.Computed})
	if n := visits.failed.Load(); n > 0 {
		b.Comment("soak: %d visits were answered wrongly, the first: %v", n, visits.first)
	}
}

// watch samples what the server uses. It begins after a quarter of duration, when the server has completed its one-time work, and returns
// lines over the minutes since then.
func watch(ctx context.Context, server *work.Server, duration time.Duration) []report.Line {
	lines := []report.Line{{Name: "live heap, MB"}, {Name: "goroutines"}, {Name: "open files"}, {Name: "resident memory, MB"}}
	begins := time.Now().Add(duration / 4)
	tick := time.NewTicker(duration / 100)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return lines
		case <-tick.C:
		}
		if time.Now().Before(begins) {
			continue
		}
		u := server.Stats()
		for i, v := range []float64{float64(u.Heap) / (1 << 20), float64(u.Goroutines), float64(u.Files), float64(u.Resident) / (1 << 20)} {
			lines[i].Points = append(lines[i].Points, [2]float64{time.Since(begins).Minutes(), v})
		}
	}
}

func soakTable(title string, lines []report.Line) report.Table {
	return report.TableOf(title, "of the server", lines, func(l report.Line) (string, string) {
		name, _, _ := strings.Cut(l.Name, ", ")
		return name, ""
	}, report.Column[report.Line]{Title: "all samples", Cell: func(l report.Line) report.Cell {
		_, unit, _ := strings.Cut(l.Name, ", ")
		var all []float64
		for _, p := range l.Points {
			all = append(all, p[1])
		}
		return report.Of(all, unit)
	}}, report.Column[report.Line]{Title: "growth over the whole, of the mean", Cell: func(l report.Line) report.Cell {
		_, growth := trend(l.Points)
		return report.Value(100*growth, "%").Computed()
	}})
}

// shares returns the lines as shares of their means, so that they fit into one plot.
func shares(lines []report.Line) (all []report.Line) {
	for _, l := range lines {
		mean, _ := trend(l.Points)
		share := report.Line{Name: strings.TrimSuffix(l.Name, ", MB")}
		for _, p := range l.Points {
			if mean > 0 {
				share.Points = append(share.Points, [2]float64{p[0], p[1] / mean})
			}
		}
		all = append(all, share)
	}
	return all
}

// trend returns the mean of points' values, and how much the straight line that fits them best rises from the first point to the last, as
// a share of the mean; zeros if there are fewer than two.
func trend(points [][2]float64) (mean, growth float64) {
	var x, y []float64
	for _, p := range points {
		x, y = append(x, p[0]), append(y, p[1])
	}
	if len(x) < 2 || x[0] == x[len(x)-1] {
		return 0, 0
	}
	if mean = stat.Mean(y, nil); mean != 0 {
		_, slope := stat.LinearRegression(x, y, nil, false)
		growth = slope * (x[len(x)-1] - x[0]) / mean
	}
	return mean, growth
}

// visits counts the visits of clients that connect, do something of each kind, and leave.
type visits struct {
	server       *work.Server
	done, failed atomic.Int64
	once         sync.Once
	first        error
}

// run makes the n-th visit. Visits with a session and without take turns.
func (v *visits) run(ctx context.Context, n int) {
	version := []string{load.WithSessions, load.WithoutSessions}[n%2]
	err := harness.Try(func() {
		clients := harness.Must(load.Open(ctx, load.Target{URL: v.server.URL(version), Version: version, Tool: "chain", Args: tenNoops,
			Want: nothing, Timeout: time.Minute}, 1))
		harness.Check(errors.Join(harness.Try(func() { visit(ctx, clients) }), clients.End(ctx)))
	})
	if ctx.Err() != nil {
		return
	}
	v.done.Add(1)
	if err != nil {
		v.failed.Add(1)
		v.once.Do(func() { v.first = err })
	}
}

// visit runs chains, a probe with a page, a chain that does not compile, and a call that its client cancels.
func visit(ctx context.Context, c *load.Clients) {
	_, _, err := c.Run(ctx, 1, 10)
	harness.Check(err)
	chain := func(args string) gjson.Result {
		result := harness.Must(c.Request(ctx, "tools/call", `"name":"chain","arguments":`+args))
		return gjson.Parse(gjson.GetBytes(result, "content.0.text").Str)
	}
	token := chain(`{"lite":true,"steps":[{"fn":"bench.large"}]}`).Get("continuation_token").Str
	page := chain(fmt.Sprintf(`{"lite":true,"mode":"paginated","page":3,"continuation_token":%q}`, token))
	harness.FailIf(page.Get("items.#").Int() != 20, "a page is answered with %.300s", page.Raw)
	if fault := chain(`{"steps":[{"fn":"bench.nop"}]}`); fault.Get("error.code").Str != "compile" {
		harness.Fail("a call of a missing function is answered with %.300s", fault.Raw)
	}
	hasty, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, _ = c.Request(hasty, "tools/call", `"name":"chain","arguments":{"steps":[{"fn":"bench.slow"}]}`) // fails, as it should
}
