package console

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
	"github.com/onecall-mcp/onecall/steps"
)

// chainsView is the page of saved chains.
type chainsView struct {
	Chains []savedChain
	Locked []steps.LockedChain // those that the viewer's client could use
	Broken []*fault.Error      // those that cannot be used; only for those who see all
}

// savedChain is a saved chain that the viewer may use.
type savedChain struct {
	*steps.Entry
	Name string // without the source
	Runs string // the name of its runs
}

func savedChainOf(e *steps.Entry) savedChain {
	spec := e.Spec()
	return savedChain{e, strings.TrimPrefix(spec.Name, steps.ChainSource+"."),
		cmp.Or(gjson.GetBytes(spec.Saved.Text, "name").Str, spec.Name)}
}

// showChains lists the saved chains that the viewer may use.
func showChains(r *request) (*page, error) {
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	v := &chainsView{Locked: view.LockedChains()}
	for _, e := range view.Registry().All() {
		if e.Spec().Saved != nil {
			v.Chains = append(v.Chains, savedChainOf(e))
		}
	}
	calls, err := r.Open(r.Context())
	if err != nil {
		return nil, err
	}
	if calls.BrokenChains != nil && r.viewer.All {
		v.Broken = calls.BrokenChains()
	}
	return &page{template: "chains", title: "Chains", data: v}, nil
}

// savedChain returns the saved chain that is a function with this name.
func (r *request) savedChain(name string) (*steps.Entry, error) {
	view, err := r.functions()
	if err != nil {
		return nil, err
	}
	entry, err := view.Registry().Resolve(name)
	switch {
	case err != nil:
		return nil, err
	case entry.Spec().Saved == nil:
		return nil, fault.New(fault.UnknownFunction, "%s is not a saved chain", name)
	}
	return entry, nil
}

// chainView is the page of one saved chain.
type chainView struct {
	savedChain
	Acts   bool
	Fields []field
	Faults []*fault.Error // those that belong to no field
	Flags  string         // see Backend.Flags
}

// field is a param of a saved chain in a form.
type field struct {
	Name, Key   string // Key is its name in the form
	Type        string // what its schema says, or JSON if a line of text cannot hold it
	Description string
	Default     string // as JSON; "": none
	Required    bool
	Options     []string // the values that it can have, as JSON; nil: any
	Value       string   // as it was sent
	Fault       string   // what is wrong with it
}

// Long reports whether the field takes JSON of any size.
func (f *field) Long() bool { return f.Type == "JSON" }

// Label returns a value that the field can have as people read it.
func (*field) Label(option string) string { return readable(gjson.Parse(option)) }

// fieldsOf returns the form of a function's arguments, with the values that were sent.
func fieldsOf(spec *steps.Spec, sent func(key string) string) (fields []field) {
	input, defaults := gjson.ParseBytes(spec.Input), rawjson.NewTable(spec.Defaults)
	required := rawjson.NewTable(nil)
	for _, name := range input.Get("required").Array() {
		required.Set(name.Str, "true")
	}
	for _, p := range rawjson.ListMembers([]byte(input.Get("properties").Raw)) {
		schema := gjson.Parse(p.Raw)
		f := field{Name: p.Name, Key: "param." + p.Name, Type: schema.Get("type").Str, Description: schema.Get("description").Str,
			Default: defaults.Get(p.Name), Required: required.Has(p.Name)}
		f.Value = sent(f.Key)
		switch f.Type {
		case "string", "number", "integer":
		case "boolean":
			f.Options = []string{"true", "false"}
		default:
			f.Type = "JSON"
		}
		if enum := schema.Get("enum"); enum.IsArray() {
			f.Type = "choice"
			for _, value := range enum.Array() {
				f.Options = append(f.Options, value.Raw)
			}
		}
		fields = append(fields, f)
	}
	return fields
}

// read returns the field's value as JSON; "": it was left empty, and is not given, or has a Fault. Its schema is checked by the engine.
func (f *field) read() string {
	value := strings.TrimSpace(f.Value)
	switch {
	case f.Value == "" && f.Required:
		f.Fault = "is missing"
	case f.Value == "":
	case f.Type == "string":
		return string(rawjson.AppendQuote(nil, f.Value))
	case gjson.Valid(value):
		return value
	case f.Type == "JSON":
		f.Fault = "is not JSON: a text stands in quotes"
	default:
		f.Fault = "is no " + f.Type
	}
	return ""
}

// showChain shows a saved chain with the form of its params.
func showChain(r *request) (*page, error) {
	v, err := r.chainView(r.URL.Query().Get)
	if err != nil {
		return nil, err
	}
	return v.page(), nil
}

func (r *request) chainView(sent func(key string) string) (*chainView, error) {
	entry, err := r.savedChain(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return &chainView{savedChain: savedChainOf(entry), Acts: r.viewer.Acts, Flags: r.Flags, Fields: fieldsOf(entry.Spec(), sent)}, nil
}

func (v *chainView) page() *page { return &page{template: "chain", title: v.Name, data: v} }

// runSaved runs a saved chain with the params of the form.
func runSaved(r *request) (*page, error) {
	if err := r.mustAct(); err != nil {
		return nil, err
	}
	v, err := r.chainView(r.PostFormValue)
	if err != nil {
		return nil, err
	}
	input := rawjson.NewTable(nil)
	for i := range v.Fields {
		if value := v.Fields[i].read(); value != "" {
			input.Set(v.Fields[i].Name, value)
		}
	}
	if slices.ContainsFunc(v.Fields, func(f field) bool { return f.Fault != "" }) {
		return v.page(), nil
	}
	spec := v.Spec()
	given := rawjson.AppendObject(nil, input.List)
	a, err := r.check(spec.Saved.Text, given)
	if err != nil {
		return nil, err
	}
	for _, f := range a.Faults {
		v.place(f)
	}
	if len(a.Faults) > 0 {
		return v.page(), nil
	}
	return r.begin(&act{Title: "Chain " + v.Name}, spec.Name, spec.Saved.Text, chain.Override{Input: given})
}

// place shows a fault at the field that it is about.
func (v *chainView) place(f *fault.Error) {
	for i := range v.Fields {
		at := fault.Key("/input", v.Fields[i].Name)
		if f.At == at || strings.HasPrefix(f.At, at+"/") {
			v.Fields[i].Fault = f.Message
			return
		}
	}
	v.Faults = append(v.Faults, f)
}
