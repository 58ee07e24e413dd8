package console

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/figure"
	"github.com/onecall-mcp/onecall/steps"
)

const (
	faultsShown  = 20
	excerptWidth = 100 // columns
)

// playgroundView is the page on which chains are written, checked and run.
type playgroundView struct {
	Text    string
	Acts    bool
	Checked bool // the text was checked: it has Faults, or a Plan if it is a chain
	Faults  []faultView
	More    int // faults that are not shown
	Plan    *planView
}

// faultView is a fault with the line of the text that it is in, and a caret below.
type faultView struct {
	*fault.Error
	Excerpt string
	Nearest string // "": none, or the message has them
}

// planView is what a chain would do.
type planView struct {
	Picture              template.HTML
	Hash                 string
	Steps                int
	Read, Write, Destroy int
	Approvals            []string // the steps whose calls need approval
	Bounds               []string // what a run takes
}

// showPlayground shows the text of a saved chain, or none.
func showPlayground(r *request) (*page, error) {
	v := &playgroundView{Acts: r.viewer.Acts}
	if name := r.URL.Query().Get("chain"); name != "" {
		entry, err := r.savedChain(name)
		if err != nil {
			return nil, err
		}
		v.Text = readable(gjson.ParseBytes(entry.Spec().Saved.Text))
	}
	return v.page(), nil
}

func (v *playgroundView) page() *page {
	return &page{template: "playground", title: "Playground", data: v}
}

// tryChain checks the text of a chain, and runs it if the viewer asks for that.
func tryChain(r *request) (*page, error) {
	v := &playgroundView{Acts: r.viewer.Acts, Text: r.PostFormValue("text")}
	if r.PostFormValue("do") == "run" {
		if err := r.mustAct(); err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(v.Text) == "" {
		if r.PostFormValue("do") != "" { // the text was not only emptied
			v.refuse([]*fault.Error{fault.New(fault.BadRequest, "there is no chain: write one first")})
		}
		return v.page(), nil
	}
	parsed, faults := chainfile.Parse("", []byte(v.Text))
	if len(faults) > 0 {
		v.refuse(faults)
		return v.page(), nil
	}
	a, err := r.check(parsed.JSON, nil)
	if err != nil {
		return nil, err
	}
	if faults := a.Faults; len(faults) > 0 || !a.OK {
		if len(faults) == 0 {
			faults = []*fault.Error{a.Error}
		}
		parsed.Locate(faults)
		v.refuse(faults)
		return v.page(), nil
	}
	if r.PostFormValue("do") == "run" {
		act := &act{Title: "Playground", Text: v.Text}
		if len(act.Text) > maxWritten {
			act.Text = ""
		}
		return r.begin(act, "", parsed.JSON, chain.Override{})
	}
	v.Checked = true
	if a.Plan != nil {
		v.Plan = planOf(a.Plan)
	}
	return v.page(), nil
}

// check compiles a chain and describes its plan, and runs nothing: a request to undo or to resume does neither.
// input replaces members of its input; nil: none.
func (r *request) check(text, input []byte) (*chain.Answer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	standard := false
	return r.run(ctx, text, chain.Override{Check: true, DryRun: true, Lite: &standard, Input: input})
}

// refuse shows the faults of the text.
func (v *playgroundView) refuse(faults []*fault.Error) {
	v.Checked = true
	v.Faults, v.More = faultViews(v.Text, faults)
}

// faultViews returns what a page shows of the faults of a text, and how many are not shown.
func faultViews(text string, faults []*fault.Error) (list []faultView, more int) {
	slices.SortStableFunc(faults, func(a, b *fault.Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	more = max(len(faults)-faultsShown, 0)
	for _, f := range faults[:len(faults)-more] {
		shown := faultView{Error: f.Under("")}
		shown.Message = strings.TrimPrefix(f.Message, fmt.Sprintf("line %d, column %d: ", f.Line, f.Column))
		if line, caret := chainfile.Excerpt([]byte(text), f); line != "" {
			line, before := chainfile.Window(line, caret, excerptWidth)
			shown.Excerpt = line + "\n" + strings.Repeat(" ", before) + "^"
		}
		if len(f.Nearest) > 0 && !chainfile.Mentions(f.Message, f.Nearest[0]) {
			shown.Nearest = strings.Join(f.Nearest, ", ")
		}
		list = append(list, shown)
	}
	return list, more
}

// planOf returns what a page shows of a plan.
func planOf(p *chain.DryRun) *planView {
	v := &planView{Picture: picture(draw.OfPlan("The chain's plan", p).SVG()), Hash: p.Hash, Steps: len(p.Steps), Read: p.Counts[steps.Read],
		Write: p.Counts[steps.Write], Destroy: p.Counts[steps.Destroy]}
	v.Approvals = approvals(nil, &p.DryChain, "")
	whole := func(n int64) string { return number(n) }
	for _, part := range []struct {
		name string
		chain.Interval
		spell func(n int64) string
	}{
		{"calls", p.Bound.Calls, whole}, {"bytes", p.Bound.Bytes, whole}, {"tokens", p.Bound.Tokens, whole},
		{"time", p.Bound.Millis, func(n int64) string { return duration(float64(n)) }},
	} {
		if text := figure.Between(part.Low, part.Likely, part.High, part.spell); text != "" {
			v.Bounds = append(v.Bounds, part.name+" "+text)
		}
	}
	return v
}

// approvals adds the steps of a chain, and of its inline chains, whose calls need approval. prefix is the number of the step around it.
func approvals(list []string, c *chain.DryChain, prefix string) []string {
	for i := range c.Steps {
		at := prefix + strconv.Itoa(i)
		if c.Steps[i].Approve {
			list = append(list, at+" "+c.Steps[i].Function)
		}
		if inner := c.Steps[i].Chain; inner != nil {
			list = approvals(list, inner, at+".")
		}
	}
	return list
}
