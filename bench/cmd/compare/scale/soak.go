package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// soakVariable names the environment variable with the duration of the soak, such as 1h. Without it, the long form has two minutes, and
// the short form has no soak.
const soakVariable = "ONECALL_COMPARE_SOAK"

const (
	soakClients = 4 // clients at a time
	// soakInterval is the time between two visits of a client. It is fixed: the server keeps the results of two seconds of visits, and
	// an interval that follows the machine's load would look like growth.
	soakInterval = 80 * time.Millisecond
)

// soak has clients connect, do something of each kind and leave, for a while, and watches what the server uses. It runs for five
// quarters of the soak's duration. The first of these does not count, because the server then makes what it makes only once.
func soak(ctx context.Context, b *harness.Bench) error {
	duration, err := soakTime(b.Short)
	if err != nil || duration == 0 {
		return err
	}
	if text := os.Getenv(soakVariable); text != "" {
		b.Command = soakVariable + "=" + text + " " + b.Command
	}
	w, err := worker(ctx, b)
	if err != nil {
		return err
	}
	server, err := w.Serve(ctx, "onecall")
	if err != nil {
		return err
	}
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
	lines, err := watch(limited, server, duration)
	cancel()
	all.Wait()
	if err := errors.Join(err, ctx.Err(), server.Close()); err != nil {
		return err
	}
	title := fmt.Sprintf("Use over %v of %s visits by %d clients at a time, each every %v", duration, number(int(visits.done.Load())),
		soakClients, soakInterval)
	b.Tables = append(b.Tables, soakTable(title, lines))
	b.Plots = append(b.Plots, report.Plot{Name: "scale-soak", Title: "Use over " + duration.String() + ", each of its mean", X: "minutes",
		Y: "of the mean", Lines: shares(lines)})
	b.Figure(report.Figure{
		Name: "soak-heap", Title: fmt.Sprintf("growth of the live heap over a soak of %v, of its mean", duration),
		Value: 100 * fit(lines[0].Points).growth(), Unit: "%", How: report.Computed, // lines[0] is the live heap
	})
	if n := visits.failed.Load(); n > 0 {
		b.Comment("soak: %d visits were answered wrongly, the first: %v", n, visits.first)
	}
	return nil
}

// soakTime returns how long the soak lasts; 0: there is none.
func soakTime(short bool) (time.Duration, error) {
	if text := os.Getenv(soakVariable); text != "" {
		duration, err := time.ParseDuration(text)
		if err != nil || duration < 10*time.Second {
			return 0, fmt.Errorf("%s is %q: want a time of at least 10s, such as 1h", soakVariable, text)
		}
		return duration, nil
	}
	if short {
		return 0, nil
	}
	return 2 * time.Minute, nil
}

// watch samples what the server uses. It begins after a quarter of duration, when the server has completed its one-time work, and returns
// lines over the minutes since then.
func watch(ctx context.Context, server *work.Server, duration time.Duration) ([]report.Line, error) {
	lines := []report.Line{{Name: "live heap, MB"}, {Name: "goroutines"}, {Name: "open files"}, {Name: "resident memory, MB"}}
	begins := time.Now().Add(duration / 4)
	tick := time.NewTicker(duration / 100)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return lines, nil
		case <-tick.C:
		}
		if time.Now().Before(begins) {
			continue
		}
		u, err := server.Stats()
		if err != nil {
			return nil, err
		}
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
		return report.Value(100*fit(l.Points).growth(), "%").Computed()
	}})
}

// shares returns the lines as shares of their means, so that they fit into one plot.
func shares(lines []report.Line) (all []report.Line) {
	for _, l := range lines {
		mean := fit(l.Points).mean
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

// trend is the straight line that fits points best: the mean of the points' values, the line's slope, and the distance from the first
// point to the last along the x axis.
type trend struct{ mean, slope, width float64 }

// fit returns the trend of points; all zero if there are fewer than two.
func fit(points [][2]float64) (f trend) {
	if len(points) < 2 {
		return f
	}
	var x, y []float64
	for _, p := range points {
		x, y = append(x, p[0]), append(y, p[1])
	}
	f.mean, f.width = stat.Mean(y, nil), x[len(x)-1]-x[0]
	if f.width > 0 {
		_, f.slope = stat.LinearRegression(x, y, nil, false)
	}
	return f
}

// growth returns how much the line rises from its first point to its last, as a share of the mean.
func (f trend) growth() float64 {
	if f.mean == 0 {
		return 0
	}
	return f.slope * f.width / f.mean
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
	target := load.Target{URL: v.server.URL(version), Version: version, Tool: "chain", Args: tenNoops, Want: nothing, Timeout: time.Minute}
	clients, err := load.Open(ctx, target, 1)
	if err == nil {
		err = visit(ctx, clients)
		if ended := clients.End(ctx); err == nil {
			err = ended
		}
	}
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
func visit(ctx context.Context, c *load.Clients) error {
	if _, _, err := c.Run(ctx, 1, 10); err != nil {
		return err
	}
	chain := func(ctx context.Context, args string) (gjson.Result, error) {
		result, err := c.Request(ctx, "tools/call", `"name":"chain","arguments":`+args)
		return gjson.Parse(gjson.GetBytes(result, "content.0.text").Str), err
	}
	probe, err := chain(ctx, `{"lite":true,"steps":[{"fn":"bench.large"}]}`)
	if err != nil {
		return err
	}
	token := probe.Get("continuation_token").Str
	page, err := chain(ctx, fmt.Sprintf(`{"lite":true,"mode":"paginated","page":3,"continuation_token":%q}`, token))
	if err == nil && page.Get("items.#").Int() != 20 {
		err = fmt.Errorf("a page is answered with %.300s", page.Raw)
	}
	if err != nil {
		return err
	}
	fault, err := chain(ctx, `{"steps":[{"fn":"bench.nop"}]}`)
	if err == nil && fault.Get("error.code").Str != "compile" {
		err = fmt.Errorf("a call of a missing function is answered with %.300s", fault.Raw)
	}
	if err != nil {
		return err
	}
	hasty, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, _ = chain(hasty, `{"steps":[{"fn":"bench.slow"}]}`) // fails, as it should
	return nil
}
