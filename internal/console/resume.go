package console

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/draw"
	"github.com/onecall-mcp/onecall/internal/history"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// resume continues a run as it is.
func resume(r *request) (*page, error) {
	past, said, err := r.mayContinue()
	if err != nil {
		return nil, err
	}
	text, err := resumption(rawjson.NewTable([]byte(`{}`)), past.Row.ID, said)
	if err != nil {
		return nil, err
	}
	return r.start("Resume "+past.Row.ID, past.Row.ID, text, chain.Override{})
}

// fixView is the page on which the chain of a run is corrected.
type fixView struct {
	ID, Chain string
	runActs
	Status  journal.Status
	Code    fault.Code // why the run is not ok
	Message string
	Hidden  bool // the chain names functions that the viewer may not use, so that it is not shown
	Text    string
	Failed  []faultView // the steps that failed, in Text
	Unknown []unknownCall
	Faults  []faultView // what is wrong with Text; nil: nothing, or it was not looked at
	More    int
	sees    func(name string) bool
	Preview *resumeView // what a resume with Text would do; nil: it was not looked at
}

// resumeView is what a resume would do.
type resumeView struct {
	Steps     []resumeStep
	Conflicts []unknownCall // calls that were made, and that the chain does not contain
	Picture   template.HTML
}

// resumeStep is a step of a resume.
type resumeStep struct {
	At, ID, Function string
	Reused, Approve  bool
	Partly           string // how many of its elements are reused; "": all, none, or it has none
	Effect           string
}

// maxNames is how many of a chain's functions its row has.
const maxNames = 100

// readFix returns the page for the run of the request, with its stored chain.
func (r *request) readFix(ctx context.Context, said map[string]string) (*fixView, *journal.Past, error) {
	past, t, sees, err := r.readRun(ctx, r.own())
	if err != nil {
		return nil, nil, err
	}
	v := &fixView{ID: t.ID, Chain: t.Chain, runActs: r.actsOn(past), Status: t.Status, Code: t.Code, Message: t.Message,
		sees:    sees,
		Unknown: unknownCalls(past.Calls(), sees, said)}
	names := past.Row.Functions
	v.Hidden = past.Chain == nil || !r.viewer.All && len(names) >= maxNames ||
		slices.ContainsFunc(names, func(name string) bool { return !sees(name) })
	if v.Hidden {
		return v, past, nil
	}
	text, faults := chain.SaveAs(past.Chain, nil) // as one writes it by hand, without what belongs to the run, such as its key
	if len(faults) > 0 {
		return nil, nil, faults[0]
	}
	v.Text = strings.TrimSpace(string(text))
	v.Failed = failedSteps(t, v.Text)
	return v, past, nil
}

// failedSteps returns the steps whose last calls failed, at their places in the text of the chain.
func failedSteps(t *history.Timeline, text string) []faultView {
	last := map[string]*history.Call{} // by path
	for i := range t.List {
		if c := &t.List[i]; c.Event == "" && !c.Undoes {
			last[c.At] = c
		}
	}
	known := map[string]bool{} // the pointers of steps
	var faults []*fault.Error
	for i := range t.List {
		c := &t.List[i]
		if last[c.At] != c || c.Status != "failed" {
			continue
		}
		pointer := ""
		for part := range strings.SplitSeq(c.At, ".") {
			number, _, _ := strings.Cut(part, "[")
			pointer += "/steps/" + number + "/chain"
		}
		pointer = strings.TrimSuffix(pointer, "/chain")
		if known[pointer] {
			continue
		}
		known[pointer] = true
		step := gjson.Get(text, strings.ReplaceAll(pointer[1:], "/", "."))
		for _, member := range []string{"fn", c.Function} {
			if step.Get(gjson.Escape(member)).Exists() {
				pointer = fault.Key(pointer, member)
				break
			}
		}
		faults = append(faults, fault.New(cmp.Or(c.Code, fault.Cancelled), "%s: %s", c.At, cmp.Or(c.Message, "it has not ended")).Under(pointer))
	}
	chain.Locate([]byte(text), faults)
	list, _ := faultViews(text, faults)
	return list
}

// showFix shows the chain of a run and, if functions are at hand, what a resume would do.
func showFix(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	v, past, err := r.readFix(ctx, nil)
	if err != nil {
		return nil, err
	}
	if !v.Hidden && v.Resumes && (r.Opened == nil || r.Opened()) {
		if _, err := r.preview(ctx, v, past, nil); err != nil {
			return nil, err
		}
	}
	return v.page(), nil
}

// Lines is the height of the editor.
func (v *fixView) Lines() int { return min(max(strings.Count(v.Text, "\n")+2, 6), 36) }

func (v *fixView) page() *page { return &page{template: "fix", title: "Fix " + v.ID, data: v} }

// fix shows what a resume with the chain of the form would do or, if nothing is wrong with it and the form says so, resumes the run.
func fix(r *request) (*page, error) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	said, err := r.assumed()
	if err != nil {
		return nil, err
	}
	resumes := r.PostFormValue("do") == "resume"
	if resumes {
		if err := r.mustAct(); err != nil {
			return nil, err
		}
	}
	v, past, err := r.readFix(ctx, said)
	if err != nil {
		return nil, err
	}
	if v.Hidden {
		return nil, fault.New(fault.Denied, "the chain of this run names functions that you may not use")
	}
	v.Text = r.PostFormValue("text")
	v.Failed = nil // they are in another text
	request, err := r.preview(ctx, v, past, said)
	if err != nil || request == nil || !resumes {
		return v.page(), err
	}
	a := &act{Title: "Resume " + v.ID, Run: v.ID, Text: v.Text, Back: "runs/" + v.ID + "/fix"}
	if len(a.Text) > maxWritten {
		a.Text = ""
	}
	return r.startAct(a, "", request, chain.Override{})
}

// preview adds to a page what a resume with its text would do, and returns the request that would do it; nil: there are faults.
func (r *request) preview(ctx context.Context, v *fixView, past *journal.Past, said map[string]string) ([]byte, error) {
	parsed, faults := chainfile.Parse("", []byte(v.Text))
	if len(faults) == 0 { // what is below takes apart what is no JSON, too
		a, err := r.check(parsed.JSON, nil)
		if err != nil {
			return nil, err
		}
		for _, f := range append(a.Faults, a.Error) {
			if f != nil && f.Code == fault.BadJSON && len(faults) == 0 {
				faults = []*fault.Error{f}
			}
		}
	}
	if len(faults) == 0 && !gjson.ParseBytes(parsed.JSON).IsObject() {
		faults = []*fault.Error{fault.New(fault.BadRequest, "a chain is an object with steps")}
	}
	if len(faults) > 0 {
		v.Faults, v.More = faultViews(v.Text, faults)
		return nil, nil
	}
	sent := rawjson.NewTable(parsed.JSON)
	for _, name := range rawjson.NewTable(past.Chain).Names() {
		if !sent.Has(name) && name != "key" && name != "return" && name != "steps" { // a field that is not sent would stay
			sent.Set(name, "null")
		}
	}
	request, err := resumption(sent, v.ID, said)
	if err != nil {
		return nil, err
	}
	standard := false
	a, err := r.run(ctx, request, chain.Override{DryRun: true, Lite: &standard})
	if err != nil {
		return nil, err
	}
	if !a.OK || a.Plan == nil || a.Plan.Resume == nil {
		if faults = a.Faults; len(faults) == 0 && a.Error != nil {
			faults = []*fault.Error{a.Error}
		}
		for _, f := range faults {
			f.Line, f.Column = 0, 0 // they are those in request
		}
		parsed.Locate(faults)
		v.Faults, v.More = faultViews(v.Text, faults)
		return nil, nil
	}
	v.Preview = resumeViewOf(a.Plan)
	for _, c := range a.Plan.Resume.Conflicts {
		if !slices.ContainsFunc(v.Unknown, func(u unknownCall) bool { return u.At == c.StepPath }) {
			u := unknownCall{At: c.StepPath, Said: said[c.StepPath]}
			if v.sees(c.Function) {
				u.Function = c.Function
			}
			v.Preview.Conflicts = append(v.Preview.Conflicts, u)
		}
	}
	return request, nil
}

func resumeViewOf(p *chain.DryRun) *resumeView {
	v := &resumeView{}
	graph := draw.OfPlan("What a resume does", p)
	for i := range p.Steps {
		s := &p.Steps[i]
		row := resumeStep{At: strconv.Itoa(i), ID: s.ID, Function: s.Function, Effect: s.Effect.String(), Approve: s.Approve,
			Reused: !slices.Contains(p.Resume.Made, i)}
		if slices.Contains(p.Resume.Reused, i) {
			graph.Steps[i].Status = draw.Reused
		}
		for _, partly := range p.Resume.Partly {
			if partly.Step == i {
				row.Partly = strconv.Itoa(partly.Reused) + " of " + strconv.Itoa(partly.Elements) + " elements"
			}
		}
		v.Steps = append(v.Steps, row)
	}
	v.Picture = picture(graph.SVG())
	return v
}
