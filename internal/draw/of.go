package draw

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/history"
)

// PlanOf returns the plan of a run's stored chain, compiled again by run, such as Engine.Run, with what the caller may use now. It makes no
// call.
func PlanOf(ctx context.Context, run func(context.Context, []byte, *chain.Caller) *chain.Answer, stored []byte, caller chain.Caller) (
	*chain.DryRun, *fault.Error,
) {
	text, faults := chain.SaveAs(stored, nil) // without what belongs to the run, such as its key
	if len(faults) > 0 {
		return nil, faults[0]
	}
	caller.Override.Check, caller.Override.DryRun = true, true
	answer := run(ctx, text, &caller)
	switch {
	case answer.Plan != nil:
		return answer.Plan, nil
	case len(answer.Faults) > 0:
		return nil, answer.Faults[0]
	}
	return nil, answer.Error
}

// OfPlan returns the graph of a plan.
func OfPlan(title string, p *chain.DryRun) *Graph {
	g := &Graph{Title: title, Steps: stepsOf(&p.DryChain, ""), Waves: p.Waves}
	for i := range p.Flows {
		setFlow(g.Steps, &p.Flows[i])
	}
	return g
}

// setFlow notes at a step, and at those around it, what a flow rule decides about its call.
func setFlow(list []Step, f *chain.Flow) {
	for i := range list {
		if s := &list[i]; slices.Contains(pathOf(f.StepPath), s.At) {
			s.Flows = append(s.Flows, f.Do+": "+f.From+" → "+f.To)
			setFlow(s.Chain, f)
		}
	}
}

func stepsOf(c *chain.DryChain, prefix string) []Step {
	list := make([]Step, len(c.Steps))
	for i := range c.Steps {
		s := &c.Steps[i]
		at := prefix + strconv.Itoa(i)
		list[i] = Step{At: at, ID: s.ID, Function: s.Function, Effect: s.Effect.String(), Approve: s.Approve, ForEach: s.ForEach,
			After: s.After, Needs: s.Needs}
		if s.Chain != nil {
			list[i].Chain = stepsOf(s.Chain, at+".")
		}
	}
	return list
}

// OfRun returns the graph of a run on the plan of its chain. If p is nil, the columns are the waves of its calls, and nothing shows what
// reads what. waiting has the paths of the calls that wait for approval.
func OfRun(title string, p *chain.DryRun, t *history.Timeline, waiting []string) *Graph {
	sums := sumCalls(t, waiting)
	if p == nil {
		return graphByTime(title, t, sums)
	}
	g := OfPlan(title, p)
	setSums(g.Steps, sums)
	return g
}

func setSums(list []Step, sums map[string]*sum) {
	for i := range list {
		s := &list[i]
		setSums(s.Chain, sums)
		if found := sums[s.At]; found != nil {
			found.set(s)
		} else if s.Function != "expr" && (s.Function != "" || slices.ContainsFunc(s.Chain, func(c Step) bool { return c.Status != "" })) {
			s.Status = NotRun
		}
	}
}

// graphByTime returns the graph of a run whose chain is not known any more.
func graphByTime(title string, t *history.Timeline, sums map[string]*sum) *Graph {
	g, columns, seen := &Graph{Title: title}, map[int]int{}, map[string]bool{} // columns has those of the run's waves
	for i := range t.List {
		c := &t.List[i]
		at := pathOf(c.At)[0]
		if c.Event != "" || c.Undoes || seen[at] {
			continue
		}
		seen[at] = true
		s := Step{At: at, Function: c.Function}
		if strings.Contains(c.At, ".") {
			s.Function = "" // the call is one of an inline chain
		}
		sums[at].set(&s)
		if _, known := columns[c.Wave]; !known {
			columns[c.Wave], g.Waves = len(g.Waves), append(g.Waves, nil)
		}
		column := columns[c.Wave]
		g.Waves[column], g.Steps = append(g.Waves[column], len(g.Steps)), append(g.Steps, s)
	}
	return g
}

// sum sums up the calls of a step and of the steps of its inline chain.
type sum struct {
	last                   map[string]*history.Call // the last call at each path
	unmade                 map[string]bool          // see Timeline.Decided
	spans                  []span
	calls, retries, tokens int
	later                  bool // a call was made after the last resume
	waits                  bool
}

// sumCalls sums up calls by the path of each step, without the elements.
func sumCalls(t *history.Timeline, waiting []string) map[string]*sum {
	sums := map[string]*sum{}
	each := func(path string, f func(*sum)) {
		for _, at := range pathOf(path) {
			if sums[at] == nil {
				sums[at] = &sum{last: map[string]*history.Call{}, unmade: map[string]bool{}}
			}
			f(sums[at])
		}
	}
	resumed := lastResume(t)
	for i := range t.List {
		c := &t.List[i]
		if c.Event != "" || c.Undoes {
			continue
		}
		each(c.At, func(s *sum) {
			s.last[c.At], s.spans, s.later = c, append(s.spans, span{c.After, c.After + c.Millis}), s.later || i > resumed
			s.calls, s.retries, s.tokens = s.calls+1, s.retries+c.Retries, s.tokens+c.Tokens
		})
	}
	for _, path := range waiting {
		each(path, func(s *sum) { s.waits = true })
	}
	for path, denied := range t.Decided {
		each(path, func(s *sum) { s.unmade[path] = denied })
	}
	return sums
}

// lastResume returns the index of the last resume that was not refused; -1: there is none.
func lastResume(t *history.Timeline) int {
	last, before := -1, -1
	for i := range t.List {
		switch t.List[i].Event {
		case history.Resumed:
			last, before = i, last
		case history.Refused:
			last = before
		}
	}
	return last
}

// set sets what the run says about a step.
func (s *sum) set(step *Step) {
	step.Calls, step.Retries, step.Tokens = s.calls, s.retries, s.tokens
	for _, busy := range merge(s.spans, 0) {
		step.Millis += busy.to - busy.from
	}
	counts, done, outcomes := tally{}, map[string]bool{}, []string{} // done: by element
	for _, path := range slices.Sorted(maps.Keys(s.last)) {
		c := s.last[path]
		status := statusOf(c)
		counts[status]++
		if step.Code = cmp.Or(step.Code, string(c.Code)); c.Outcome != "" {
			outcomes = append(outcomes, string(c.Outcome))
		}
		if element := elementOf(path, step.At); element != "" {
			before, known := done[element]
			done[element] = (before || !known) && status != Failed
		}
	}
	if len(outcomes) > 0 {
		step.Effect = cmp.Or(step.Effect, "write")
		if slices.Min(outcomes) == slices.Max(outcomes) {
			step.Outcome = outcomes[0]
		}
	}
	for path, denied := range s.unmade {
		if element := elementOf(path, step.At); element != "" {
			done[element] = false
		}
		if denied {
			counts[Failed]++
			step.Code = cmp.Or(step.Code, string(fault.Denied))
		}
	}
	step.Elements = len(done)
	for _, ok := range done {
		if ok {
			step.Done++
		}
	}
	switch {
	case counts[Failed] == 0 && s.waits:
		step.Status = Waiting
	case len(counts) == 0: // its calls are approved
		step.Status = NotRun
	case !s.later && counts[OK] == len(s.last) && counts[Failed] == 0:
		step.Status = Reused
	default:
		step.Status = statuses[slices.IndexFunc(statuses, func(status Status) bool { return counts[status] > 0 })]
	}
}

func statusOf(c *history.Call) Status {
	if c.Outcome == fault.Undone {
		return Undone
	}
	return Status(c.Status)
}

// pathOf returns the step of a path and those around it, outermost first, without elements: 3 and 3.1 for 3[7].1.
func pathOf(path string) (list []string) {
	at := ""
	for part := range strings.SplitSeq(path, ".") {
		number, _, _ := strings.Cut(part, "[")
		at += number
		list = append(list, at)
		at += "."
	}
	return list
}

// elementOf returns which elements a path is of, as far as the step at; "": the step has no forEach.
func elementOf(path, at string) string {
	parts := strings.Split(path, ".")
	depth := min(strings.Count(at, ".")+1, len(parts))
	if !strings.HasSuffix(parts[depth-1], "]") {
		return ""
	}
	return strings.Join(parts[:depth], ".")
}

// CallsOf returns the calls of a run over time. p names the steps; nil: it is not known.
func CallsOf(title string, p *chain.DryRun, t *history.Timeline) *Gantt {
	g, rows, elements := &Gantt{Title: title}, map[string]int{}, map[string]bool{}
	resumed, end := lastResume(t), t.Millis
	for i := range t.List {
		end = max(end, t.List[i].After+t.List[i].Millis)
	}
	for i := range t.List {
		c := &t.List[i]
		if c.Event != "" {
			text := words(" ", c.Event, when(c.By != "", "by "+c.By), when(c.Calls > 0, "("+strconv.Itoa(c.Calls)+")"))
			g.Marks = append(g.Marks, Mark{c.After, text})
			continue
		}
		row := Row{At: pathOf(c.At)[0], Function: c.Function}
		if c.Undoes {
			row.At = "undo " + c.At
		} else if n, err := strconv.Atoi(row.At); err == nil && p != nil && n < len(p.Steps) {
			row.ID, row.Function = p.Steps[n].ID, p.Steps[n].Function
		}
		if _, known := rows[row.At]; !known {
			rows[row.At], g.Rows = len(g.Rows), append(g.Rows, row)
		}
		r := &g.Rows[rows[row.At]]
		if element := elementOf(c.At, r.At); element != "" && !c.Undoes && !elements[element] {
			elements[element] = true
			r.Elements++
		}
		bar := Bar{From: c.After, To: c.After + c.Millis, Status: statusOf(c), Retries: c.Retries}
		if bar.Status == Running {
			bar.To = end
		} else if bar.Status == OK && i < resumed {
			bar.Status = Reused
		}
		r.Bars = append(r.Bars, bar)
	}
	return g
}
