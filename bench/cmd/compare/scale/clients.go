package scale

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/work"
	"github.com/onecall-mcp/onecall/bench/load"
)

// side is a server under load, with its clients.
type side struct {
	server  *work.Server
	clients *work.Loader
}

// nothing is the answer of both servers.
const nothing = `{"id":"a-1","value":7}`

// tenNoops are the arguments of a chain of ten steps that do nothing.
var tenNoops = `{"lite":true,"steps":[` + strings.TrimSuffix(strings.Repeat(`{"fn":"bench.noop"},`, 10), ",") + `]}`

// loadLimit bounds the load with one version of MCP.
const loadLimit = 10 * time.Minute

// clients measures servers with increasing numbers of clients, with sessions and without.
func clients(ctx context.Context, w *work.Worker, o *report.Options, s *report.Section) error {
	counts, rounds := []int{1, 10, 100, 1000}, 3
	if !o.Short {
		counts, rounds = append(counts, 10_000), 5
	}
	for _, v := range []struct{ version, name string }{{load.WithSessions, "sessions"}, {load.WithoutSessions, "stateless"}} {
		all, err := clientsOf(ctx, w, o, v.version, counts, rounds)
		if err != nil {
			return fmt.Errorf("clients, %s: %w", v.version, err)
		}
		title := fmt.Sprintf("Clients, each with chains of 10 no-ops, over HTTP, %s (%s)", v.name, v.version)
		s.Tables = append(s.Tables, clientsTable(title, all))
		s.Plots = append(s.Plots, clientsPlots(v.name, all)...)
		s.Figures = append(s.Figures, clientsFigures(v.name, all)...)
	}
	if files := work.FileLimit(); files > 0 {
		s.Comments = append(s.Comments, "A process may have "+number(files)+
			" files open here, and each connection is one: Go has raised the soft limit to the hard one.")
	}
	return nil
}

// clientResults holds the results for a number of concurrent clients, one for each round.
type clientResults struct {
	clients    int
	ours, bare []work.LoadResult
	ourMemory  float64 // the resident memory of onecall's server, in MB
	bareMemory float64
	why        string // why this number of clients could not be measured
}

// clientsOf measures each number of clients with one version of MCP. A number that cannot be measured here has the reason in why.
func clientsOf(ctx context.Context, w *work.Worker, o *report.Options, version string, counts []int,
	rounds int) (all []clientResults, err error) {
	var ours, bare side
	defer func() { err = errors.Join(err, ours.close(), bare.close()) }()
	if err := ours.start(ctx, w, version, "chain", tenNoops, "serve"); err != nil {
		return nil, err
	}
	if err := bare.start(ctx, w, version, "noop", `{}`, "upstream"); err != nil {
		return nil, err
	}
	files := work.FileLimit()
	for _, n := range counts {
		o.Log("clients, %s: %d", version, n)
		count := clientResults{clients: n}
		if files > 0 && n+100 > files { // each client has a connection, which is an open file; 100 are left for other files
			count.why = fmt.Sprintf("a process may have %d files open here", files)
		} else if err := count.measure(&ours, &bare, rounds); err != nil {
			return nil, err
		}
		all = append(all, count)
	}
	return all, nil
}

func (s *side) start(ctx context.Context, w *work.Worker, version, tool, args, server string) (err error) {
	if s.server, err = w.Serve(ctx, loadLimit, server); err != nil {
		return err
	}
	target := load.Target{URL: s.server.URL(version), Version: version, Tool: tool, Args: args, Want: nothing, Timeout: time.Minute}
	s.clients, err = w.Load(ctx, target, loadLimit)
	return err
}

func (s *side) close() (err error) {
	if s.clients != nil {
		err = s.clients.Close()
	}
	if s.server != nil {
		err = errors.Join(err, s.server.Close())
	}
	return err
}

// measure has the clients call both servers in turns.
func (a *clientResults) measure(ours, bare *side, rounds int) error {
	calls := max(1000, 2*a.clients)
	for round := range rounds + 1 {
		r := work.Round{Clients: a.clients, Calls: calls}
		if round == 0 {
			r.Calls = 0 // opens the clients, and warms up
		}
		sides := []*side{ours, bare}
		if round%2 == 0 { // the servers take turns at going first
			sides[0], sides[1] = sides[1], sides[0]
		}
		for _, s := range sides {
			l, err := s.clients.Round(r)
			if err != nil {
				return err
			}
			switch {
			case round == 0 && l.Failed > 0:
				a.why = l.First
				return nil
			case round == 0:
			case s == ours:
				a.ours = append(a.ours, l)
			default:
				a.bare = append(a.bare, l)
			}
		}
	}
	for _, s := range []struct {
		side   *side
		memory *float64
	}{{ours, &a.ourMemory}, {bare, &a.bareMemory}} {
		if u, err := s.side.server.Usage(); err == nil {
			*s.memory = float64(u.Resident) / (1 << 20)
		}
	}
	return nil
}

// values returns one number of each round.
func values(rounds []work.LoadResult, metric func(work.LoadResult) float64) (all []float64) {
	for _, r := range rounds {
		all = append(all, metric(r))
	}
	return all
}

func rate(l work.LoadResult) float64 { return l.Rate }
func p50(l work.LoadResult) float64  { return l.P50 }
func p99(l work.LoadResult) float64  { return l.P99 }

// ratios returns the ratios of the rounds' rates, onecall's to the SDK's.
func (a *clientResults) ratios() (all []float64) {
	for i := range min(len(a.ours), len(a.bare)) {
		if a.bare[i].Rate > 0 {
			all = append(all, a.ours[i].Rate/a.bare[i].Rate)
		}
	}
	return all
}

// failed returns how many calls of each side were not answered correctly, and the texts of their first errors.
func (a *clientResults) failed() (ours, bare int, first string) {
	for _, l := range a.ours {
		ours += l.Failed
		first += l.First
	}
	for _, l := range a.bare {
		bare += l.Failed
		first += l.First
	}
	return ours, bare, first
}

func clientsTable(title string, all []clientResults) report.Table {
	t := report.Table{Title: title, Columns: []string{"clients", "chains a second", "SDK's server, calls a second", "chains / calls",
		"a chain, p50", "p99", "SDK's call, p50", "p99", "memory of onecall", "of the SDK's server", "failed"}}
	for i := range all {
		a := &all[i]
		row := report.Row{Name: number(a.clients)}
		if a.why != "" {
			row.Cells = []report.Cell{{Text: a.why}}
			for range len(t.Columns) - 2 {
				row.Cells = append(row.Cells, report.Cell{Text: "–"})
			}
			t.Rows = append(t.Rows, row)
			continue
		}
		ours, bare, first := a.failed()
		failed := report.Count(ours+bare, "")
		if ours+bare > 0 {
			failed = report.Cell{Text: fmt.Sprintf("%d chains, %d calls: %.200s", ours, bare, first)}
		}
		row.Cells = []report.Cell{
			report.Of(values(a.ours, rate), "/s"), report.Of(values(a.bare, rate), "/s"), computed(report.Of(a.ratios(), "×")),
			report.Of(values(a.ours, p50), "ms"), report.Of(values(a.ours, p99), "ms"),
			report.Of(values(a.bare, p50), "ms"), report.Of(values(a.bare, p99), "ms"),
			{Value: a.ourMemory, Unit: "MB", How: report.Measured}, {Value: a.bareMemory, Unit: "MB", How: report.Measured}, failed,
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func computed(c report.Cell) report.Cell {
	c.How = report.Computed
	return c
}

func clientsPlots(name string, all []clientResults) []report.Plot {
	line := func(name string, rounds func(*clientResults) []work.LoadResult, metric func(work.LoadResult) float64) report.Line {
		l := report.Line{Name: name}
		for i := range all {
			if v, _, _ := report.Spread(values(rounds(&all[i]), metric)); v > 0 {
				l.Points = append(l.Points, [2]float64{float64(all[i].clients), v})
			}
		}
		return l
	}
	ours, bare := func(a *clientResults) []work.LoadResult { return a.ours }, func(a *clientResults) []work.LoadResult { return a.bare }
	return []report.Plot{
		{Name: "scale-clients-rate-" + name, Title: "Clients over HTTP, " + name + ": rate", X: "clients", Y: "answers a second",
			LogX: true, LogY: true, Lines: []report.Line{line("onecall, chains of 10", ours, rate), line("SDK's server, calls", bare, rate)}},
		{Name: "scale-clients-time-" + name, Title: "Clients over HTTP, " + name + ": time", X: "clients", Y: "ms", LogX: true, LogY: true,
			Lines: []report.Line{line("a chain, p50", ours, p50), line("a chain, p99", ours, p99),
				line("SDK's call, p50", bare, p50), line("SDK's call, p99", bare, p99)}},
	}
}

// clientsFigures returns the figures for a thousand clients and more. Both forms have a thousand.
func clientsFigures(name string, all []clientResults) (figures []report.Figure) {
	sent, failed := 0, 0
	for i := range all {
		a := &all[i]
		ours, _, _ := a.failed()
		sent += len(a.ours) * max(1000, 2*a.clients)
		failed += ours
		if median, _, _ := report.Spread(a.ratios()); a.clients >= 1000 && median > 0 {
			figures = append(figures, report.Figure{
				Name:  fmt.Sprintf("clients%d/%s", a.clients, name),
				Title: fmt.Sprintf("%s clients, %s: chains of 10 no-ops a second / bare calls a second of the SDK's server", number(a.clients), name),
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

// minRate is the project's own limit for the ratio of chains per second to bare calls per second.
const minRate = 0.6
