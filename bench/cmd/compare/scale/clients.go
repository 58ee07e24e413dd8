package scale

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/harness"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/bench/load"
)

// nothing is the answer of both servers.
const nothing = `{"id":"a-1","value":7}`

// tenNoops are the arguments of a chain of ten steps that do nothing.
var tenNoops = `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`

// arm is a server under load, with its clients. The first one is onecall, the second one the SDK's server.
type arm struct {
	name, tool, args string
	server           *work.Server
	clients          *work.Process
}

func arms() []*arm {
	return []*arm{{name: "onecall", tool: "chain", args: tenNoops}, {name: "bare", tool: "noop", args: `{}`}}
}

func (a *arm) start(ctx context.Context, w *work.Worker, version string) {
	a.server = w.Serve(ctx, a.name)
	a.clients = w.Load(ctx, load.Target{URL: a.server.URL(version), Version: version, Tool: a.tool, Args: a.args, Want: nothing,
		Timeout: time.Minute})
}

// close ends the clients and then the server. What goes wrong then is no figure.
func (a *arm) close() {
	if a.clients != nil {
		_ = a.clients.Close()
	}
	if a.server != nil {
		_ = a.server.Close()
	}
}

// clients measures servers with increasing numbers of clients, with sessions and without.
func clients(ctx context.Context, b *harness.Bench) {
	w := worker(ctx, b)
	counts, rounds := []int{1, 10, 100, 1000}, 3
	if !b.Short {
		counts, rounds = append(counts, 10_000), 5
	}
	for _, v := range []struct{ version, name string }{{load.WithSessions, "sessions"}, {load.WithoutSessions, "stateless"}} {
		harness.In(v.version, func() {
			all := clientsOf(ctx, w, b, v.version, counts, rounds)
			title := fmt.Sprintf("Clients, each with chains of 10 no-ops, over HTTP, %s (%s)", v.name, v.version)
			b.Tables = append(b.Tables, clientsTable(title, all))
			b.Plots = append(b.Plots, clientsPlots(v.name, all)...)
			b.Figure(clientsFigures(v.name, all)...)
		})
	}
	b.Comment("A process may have %s files open here, and each connection is one: Go has raised the soft limit to the hard one.",
		number(fileLimit()))
}

// fileLimit returns how many files a process may have open.
func fileLimit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 1 << 30
	}
	return int(min(l.Max, 1<<30))
}

// clientResults holds the results for a number of concurrent clients: of each arm one for each round, and the memory of its server in MB.
type clientResults struct {
	clients int
	rounds  [2][]work.LoadResult
	memory  [2]float64
	why     string // why this number of clients could not be measured
}

// clientsOf measures each number of clients with one version of MCP. A number that cannot be measured here has the reason in why.
func clientsOf(ctx context.Context, w *work.Worker, b *harness.Bench, version string, counts []int, rounds int) (all []clientResults) {
	arms := arms()
	for _, a := range arms {
		defer a.close()
		a.start(ctx, w, version)
	}
	for _, n := range counts {
		b.Log("clients, %s: %d", version, n)
		r := clientResults{clients: n}
		if limit := fileLimit(); n+100 > limit { // each client has a connection, which is an open file; 100 are left for other files
			r.why = fmt.Sprintf("a process may have %d files open here", limit)
		} else {
			r.measure(arms, rounds)
		}
		all = append(all, r)
	}
	return all
}

// measure has the clients call both servers in turns. The first round opens the clients, and warms up.
func (r *clientResults) measure(arms []*arm, rounds int) {
	for round := 0; round <= rounds && r.why == ""; round++ {
		harness.Turn(round, len(arms), func(i int) {
			l := arms[i].clients.Round(work.Round{Clients: r.clients, Calls: min(round, 1) * r.calls()})
			switch {
			case round > 0:
				r.rounds[i] = append(r.rounds[i], l)
			case l.Failed > 0:
				r.why = l.First
			}
		})
	}
	for i, a := range arms {
		if u, err := a.server.Usage(); err == nil {
			r.memory[i] = float64(u.Resident) / (1 << 20)
		}
	}
}

// calls returns how many calls the clients make together in a round.
func (r *clientResults) calls() int { return max(1000, 2*r.clients) }

// values returns one number of each of an arm's rounds.
func (r *clientResults) values(arm int, metric func(work.LoadResult) float64) (all []float64) {
	for _, l := range r.rounds[arm] {
		all = append(all, metric(l))
	}
	return all
}

func rate(l work.LoadResult) float64 { return l.Rate }
func p50(l work.LoadResult) float64  { return l.P50 }
func p99(l work.LoadResult) float64  { return l.P99 }

// ratios returns the ratios of the rounds' rates, onecall's to the SDK's.
func (r *clientResults) ratios() (all []float64) {
	for i, l := range r.rounds[0] {
		if bare := r.rounds[1][i].Rate; bare > 0 {
			all = append(all, l.Rate/bare)
		}
	}
	return all
}

// failed returns how many calls of each arm were not answered correctly, and the texts of their first errors.
func (r *clientResults) failed() (calls [2]int, first string) {
	for i := range r.rounds {
		for _, l := range r.rounds[i] {
			calls[i] += l.Failed
			first += l.First
		}
	}
	return calls, first
}

func clientsTable(title string, all []clientResults) report.Table {
	type column = report.Column[clientResults]
	of := func(title, unit string, arm int, metric func(work.LoadResult) float64) column {
		return column{Title: title, Cell: func(r clientResults) report.Cell { return report.Of(r.values(arm, metric), unit) }}
	}
	memory := func(title string, arm int) column {
		return column{Title: title, Cell: func(r clientResults) report.Cell { return report.Value(r.memory[arm], "MB") }}
	}
	return report.TableOf(title, "clients", all, func(r clientResults) (string, string) { return number(r.clients), r.why },
		of("chains a second", "/s", 0, rate), of("SDK's server, calls a second", "/s", 1, rate),
		column{Title: "chains / calls", Cell: func(r clientResults) report.Cell { return report.Of(r.ratios(), "×").Computed() }},
		of("a chain, p50", "ms", 0, p50), of("p99", "ms", 0, p99), of("SDK's call, p50", "ms", 1, p50), of("p99", "ms", 1, p99),
		memory("memory of onecall", 0), memory("of the SDK's server", 1),
		column{Title: "failed", Cell: func(r clientResults) report.Cell {
			calls, first := r.failed()
			if calls[0]+calls[1] > 0 {
				return report.Text(fmt.Sprintf("%d chains, %d calls: %.200s", calls[0], calls[1], first))
			}
			return report.Count(0, "")
		}})
}

func clientsPlots(name string, all []clientResults) []report.Plot {
	line := func(name string, arm int, metric func(work.LoadResult) float64) report.Line {
		l := report.Line{Name: name}
		for i := range all {
			if v, _, _ := report.Spread(all[i].values(arm, metric)); v > 0 {
				l.Points = append(l.Points, [2]float64{float64(all[i].clients), v})
			}
		}
		return l
	}
	return []report.Plot{
		{Name: "scale-clients-rate-" + name, Title: "Clients over HTTP, " + name + ": rate", X: "clients", Y: "answers a second",
			LogX: true, LogY: true, Lines: []report.Line{line("onecall, chains of 10", 0, rate), line("SDK's server, calls", 1, rate)}},
		{Name: "scale-clients-time-" + name, Title: "Clients over HTTP, " + name + ": time", X: "clients", Y: "ms", LogX: true, LogY: true,
			Lines: []report.Line{line("a chain, p50", 0, p50), line("a chain, p99", 0, p99),
				line("SDK's call, p50", 1, p50), line("SDK's call, p99", 1, p99)}},
	}
}

// minRate is the project's own limit for the ratio of chains per second to bare calls per second.
const minRate = 0.6

// clientsFigures returns the figures for a thousand clients and more. Both forms have a thousand.
func clientsFigures(name string, all []clientResults) (figures []report.Figure) {
	sent, failed := 0, 0
	for i := range all {
		r := &all[i]
		calls, _ := r.failed()
		sent += len(r.rounds[0]) * r.calls()
		failed += calls[0]
		if median, _, _ := report.Spread(r.ratios()); r.clients >= 1000 && median > 0 {
			figures = append(figures, report.Figure{
				Name:  fmt.Sprintf("clients%d/%s", r.clients, name),
				Title: fmt.Sprintf("%s clients, %s: chains of 10 no-ops a second / bare calls a second of the SDK's server", number(r.clients), name),
				Value: median, Unit: "×", How: report.Computed, Min: minRate,
			})
		}
	}
	if sent == 0 {
		return figures
	}
	return append(figures, report.Figure{
		Name: "answered/" + name, Title: "chains that were answered well, of all that clients sent, " + name,
		Value: 100 * float64(sent-failed) / float64(sent), Unit: "%", How: report.Measured, Min: 100,
	})
}
