package peers

import (
	"cmp"
	"math"
	"strings"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
	"github.com/onecall-mcp/onecall/budget"
)

// goal is the project's own limit for a ratio of times: onecall's to another arm's.
type goal struct {
	work   string
	title  string
	limits map[string]float64 // the limit, by protocol
}

// whyNot explains why a goal is not reached, by the figure's name, if the reason differs from that of the work.
var whyNot = map[string]string{
	"dependent10/fastest-peer/sessions": "The bound was set against vMCP, which connects again for each call: to vMCP's time " +
		"the ratio is `peers/dependent10/vmcp/sessions`. " + reasons["dependent10"],
	"memory/vmcp": "About half of onecall's are pages of the program itself, which are there whatever it does. All arms have worked for the " +
		"same time then, in which onecall has done more.",
}

// The goals against the client that makes calls one by one, and against the fastest of the others.
var (
	bareGoals = []goal{
		{"dependent10", "10 dependent calls, onecall's time to the bare client's", map[string]float64{stateless: 0.85, withSessions: 1}},
	}
	peerGoals = []goal{
		{"empty", "empty program, onecall's time to the fastest peer's", map[string]float64{stateless: 0.8, withSessions: 0.8}},
		{"noop10", "10 no-op steps, onecall's time to the fastest peer's", map[string]float64{stateless: 0.1, withSessions: 0.1}},
		{"dependent10", "10 dependent calls, onecall's time to the fastest peer's", map[string]float64{stateless: 0.75, withSessions: 0.15}},
	}
)

// figures returns onecall's ratios. The ratio of memory is only in the long form, because memory grows with the work. A figure against the
// fastest peer is left out unless all peers were measured: without the fastest, it would mean something else.
func (e *protocolRun) figures(short bool) []report.Figure {
	suffix := ""
	if e.protocol == withSessions {
		suffix = "/sessions"
	}
	var all []report.Figure
	add := func(name, title string, rounds []float64, f report.Figure) {
		f.Name, f.Title, f.Unit, f.How = name+suffix, title+", upstream "+e.upstreamKind(), "×", report.Computed
		work, _, _ := strings.Cut(name, "/")
		f.Why = cmp.Or(whyNot[f.Name], reasons[work])
		value, low, high := report.Spread(rounds)
		if f.Value = round(value); len(rounds) > 1 {
			f.Low, f.High, f.Rounds = round(low), round(high), len(rounds)
		}
		all = append(all, f)
	}
	ours, bare := e.arm("onecall"), e.arm("bare")
	for _, g := range bareGoals {
		if a, b := ours.medians(g.work), bare.medians(g.work); len(a) > 0 && len(b) > 0 {
			add(g.work+"/bare", g.title, ratios(a, b), report.Figure{Max: g.limits[e.protocol]})
		}
	}
	for _, g := range peerGoals {
		peer := e.fastest(g.work)
		if peer == nil {
			continue
		}
		rounds := ratios(ours.medians(g.work), peer.medians(g.work))
		add(g.work+"/fastest-peer", g.title+" ("+peer.name+")", rounds, report.Figure{Max: g.limits[e.protocol]})
	}
	for _, g := range peerGoals { // against Cloudflare's code mode, which installs fast, even if the fastest peer is missing
		peer := e.arm("cloudflare")
		// At noop10, Cloudflare's code mode is the fastest peer: the figure above already compares with it.
		if a, b := ours.medians(g.work), peer.medians(g.work); g.work != "noop10" && len(a) > 0 && len(b) > 0 {
			add(g.work+"/cloudflare", strings.Replace(g.title, "the fastest peer's", peer.name+"'s", 1), ratios(a, b), report.Figure{})
		}
	}
	if peer := e.fastest("clients16"); peer != nil {
		rounds := ratios(ours.results["clients16"].rates, peer.results["clients16"].rates)
		add("clients16/fastest-peer", "16 clients, 10 dependent calls each: onecall's chains a second to the fastest peer's ("+peer.name+")",
			rounds, report.Figure{Min: 1.3})
	}
	if a, b := ours.medians("dependent10"), e.arm("vmcp").medians("dependent10"); e.protocol == withSessions && len(a) > 0 && len(b) > 0 {
		add("dependent10/vmcp", "10 dependent calls, onecall's time to vMCP's", ratios(a, b), report.Figure{Max: 0.15})
	}
	if vmcp := e.arm("vmcp"); !short && vmcp.used.Resident > 0 && ours.used.Resident > 0 {
		ratio := float64(ours.used.Resident) / float64(vmcp.used.Resident)
		add("memory/vmcp", "resident memory, onecall's to vMCP's", []float64{ratio}, report.Figure{Max: 0.55})
	}
	return all
}

// tokenFigures returns onecall's numbers of tokens.
func tokenFigures(ours *arm, counter budget.Counter) []report.Figure {
	count := func(name, title string, text []byte) report.Figure {
		tokens := float64(counter.Count(text, -1))
		return report.Figure{Name: name, Title: title, Value: tokens, Unit: "tokens", How: report.Measured}
	}
	return []report.Figure{
		count("tokens/list", "onecall's tool list and instructions", []byte(ours.list)),
		count("tokens/dependent10", "the call of the tool chain that a model writes for 10 dependent calls",
			ours.writtenCalls(workByKey("dependent10"))),
	}
}

// arm returns the arm with a key; nil: there is none.
func (e *protocolRun) arm(key string) *arm {
	for _, a := range e.arms {
		if a.key == key {
			return a
		}
	}
	return nil
}

// fastest returns the peer with the lowest median time at the work with a key; nil if onecall or a peer that can do this work was not
// measured.
func (e *protocolRun) fastest(key string) (fastest *arm) {
	w := workByKey(key)
	var minimum float64
	for _, a := range e.arms {
		if a.language == oneByOne || !a.can(w) {
			continue
		}
		r, _ := a.result(w)
		if r == nil {
			return nil
		}
		if p50 := quantile(r.took, 0.5); a.key != "onecall" && (fastest == nil || p50 < minimum) {
			fastest, minimum = a, p50
		}
	}
	return fastest
}

// medians returns the medians of the rounds at the work with a key; nil if it was not measured.
func (a *arm) medians(key string) []float64 {
	r, _ := a.result(workByKey(key))
	if r == nil {
		return nil
	}
	return r.medians
}

// round keeps three significant digits, because the rest of a measurement is noise. NaN and infinities stay, and are an error of the
// section.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	scale := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
