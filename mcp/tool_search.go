package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/search"
)

// Bounds of what a search is asked and answers.
const (
	searchPage   = 10   // functions of a page
	searchTokens = 2000 // of an answer without schemas
	restTokens   = 200  // of it, beside signatures
	maxNames     = 100  // that are described by one call
	searchWait   = 5 * time.Second
)

// searched is the index over all functions, made anew after they have changed. A caller is shown only what is in its
// view.
type searched struct {
	mu    sync.Mutex
	of    *steps.Registry
	index *search.Index
}

func (s *searched) over(r *steps.Registry) *search.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of != r {
		s.of, s.index = r, search.New(r)
	}
	return s.index
}

// finding is what is asked of search.
type finding struct {
	query               string
	names               []string
	schema, again, lite bool
	page                int
}

// search finds functions by words, or describes those that are named.
func (c *call) search() *sdk.CallToolResult {
	if isFetch(c.args, true) {
		return c.run(c.args)
	}
	a := readArguments(c.args, "query", "names", "schema", "again", "lite", "page")
	f := finding{
		query: a.text("query"), names: a.texts("names", maxNames), page: a.number("page", 1, 1),
		schema: a.flag("schema", false), again: a.flag("again", false), lite: a.flag("lite", c.face.server.o.Lite),
	}
	if f.names != nil && f.query != "" {
		a.fault(fault.BadRequest, "/names", "give query or names, not both")
	}
	if len(a.faults) > 0 {
		return c.refuse(a.faults...)
	}
	var found *findings
	switch {
	case f.names != nil:
		found = c.described(&f)
	case f.query == "":
		found = c.overview()
	default:
		found = c.ranked(&f)
	}
	tokens := searchTokens
	if f.schema {
		tokens = 0
	}
	return c.teach(found.json(), tokens, found.given)
}

// findings are what search answers.
type findings struct {
	Onecall   map[string]json.RawMessage `json:"onecall,omitempty"` // its own tools
	Sources   []sourceShown              `json:"sources,omitempty"`
	Functions []json.RawMessage          `json:"functions,omitempty"`
	Known     []string                   `json:"known,omitempty"` // whose signatures were given before
	Unknown   []unknownShown             `json:"unknown,omitempty"`
	More      int                        `json:"more,omitempty"` // matches after this page
	Note      string                     `json:"note,omitempty"`
	Down      []sourceShown              `json:"down,omitempty"`

	given []*steps.Entry // whose signatures stand in functions
}

// unknownShown is a name that is no function's.
type unknownShown struct {
	Name    string   `json:"name"`
	Nearest []string `json:"nearest,omitempty"`
	Message string   `json:"message,omitempty"`
}

func (f *findings) json() []byte {
	if f.Note == "" && f.Functions == nil && f.Onecall == nil && f.Sources == nil && f.Known == nil && f.Unknown == nil {
		f.Note = "nothing fits: use other words, or none for a list of the sources"
	}
	return marshal(f)
}

// ranked answers one page of the functions that fit the words best.
func (c *call) ranked(f *finding) *findings {
	ctx, cancel := context.WithTimeout(c.ctx, searchWait)
	defer cancel()
	steps.Await(ctx, c.face.view, nil)
	view := c.face.view.Registry()
	hits := c.face.server.searched.over(c.face.server.o.Catalog.Registry()).Find(f.query, func(spec *steps.Spec) bool { return view.Has(spec.Name) }, 0)
	start := min((f.page-1)*searchPage, len(hits))
	end := min(start+searchPage, len(hits))
	entries := make([]*steps.Entry, 0, searchPage)
	for _, hit := range hits[start:end] {
		entries = append(entries, hit.Entry)
	}
	found := &findings{More: len(hits) - end}
	switch {
	case found.More > 0:
		found.Note = "page " + itoa(f.page+1) + " has the next"
	case f.page > 1 && start == end:
		found.Note = "past the end: " + itoa(len(hits)) + " fit"
	}
	c.show(found, entries, f)
	found.Down = c.down()
	return found
}

// described answers the functions that are named, and what onecall's own tools take.
func (c *call) described(f *finding) *findings {
	found := &findings{}
	view := c.await(f.names)
	var entries []*steps.Entry
	for _, name := range f.names {
		if manual := manualOf(name, f.schema); manual != nil {
			if found.Onecall == nil {
				found.Onecall = map[string]json.RawMessage{}
			}
			found.Onecall[name] = manual
			continue
		}
		entry, err := view.Resolve(name)
		if err == nil {
			entries = append(entries, entry)
			continue
		}
		unknown := unknownShown{Name: name}
		if g, ok := fault.As(err); ok {
			unknown.Nearest = g.Nearest
		}
		if down := c.face.view.Down(name); down != nil {
			unknown.Nearest, unknown.Message = nil, down.Message
		}
		found.Unknown = append(found.Unknown, unknown)
	}
	c.show(found, entries, f)
	return found
}

// await gives the view once it has the names, or no source is starting any more.
func (c *call) await(names []string) *steps.Registry {
	return steps.Await(c.ctx, c.face.view, func(now *steps.Registry) bool {
		for _, name := range names {
			if manualOf(name, false) == nil && !now.Has(name) {
				return false
			}
		}
		return true
	})
}

// manualOf is what is to be known of one of onecall's own tools; nil for any other name.
func manualOf(name string, schema bool) json.RawMessage {
	switch {
	case name == "chain" && schema:
		return chain.ChainSchema()
	case name == "chain":
		return marshal(chainManual)
	}
	return nil
}

// show adds functions in the form that is asked for. What does not fit the answer any more is only named.
func (c *call) show(found *findings, entries []*steps.Entry, f *finding) {
	if f.lite && !f.schema {
		for _, entry := range entries {
			found.Functions = append(found.Functions, marshal(entry.Spec().Name))
		}
		return
	}
	left := c.limit(searchTokens, 0) - restTokens
	for _, entry := range entries {
		name := entry.Spec().Name
		var shown json.RawMessage
		switch {
		case f.schema:
			found.Functions = append(found.Functions, marshal(schemaOf(entry)))
			continue
		case f.names != nil:
			shown = marshal(signed(entry, entry.Spec().Description))
		default:
			shown = marshal(signed(entry, entry.Summary()))
		}
		if c.session.knows(entry) && !f.again {
			found.Known = append(found.Known, name)
			found.Note = "again:true repeats"
			continue
		}
		cost := c.face.server.o.Counter.Count(shown, left)
		if cost > left {
			found.Functions = append(found.Functions, marshal(name))
			continue
		}
		left -= cost
		found.Functions, found.given = append(found.Functions, shown), append(found.given, entry)
	}
}

// signed is a function on one line: how to call it, what it does to the world where it does not only read, and what for.
func signed(entry *steps.Entry, description string) string {
	text := entry.Signature()
	if effect := entry.Spec().Effect; effect != steps.Read {
		text += " [" + effect.String() + "]"
	}
	if description != "" {
		text += " // " + description
	}
	return text
}

// functionShown is a function with all that is known of it.
type functionShown struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Effect       string          `json:"effect"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

func schemaOf(entry *steps.Entry) functionShown {
	spec := entry.Spec()
	return functionShown{Name: spec.Name, Description: spec.Description, Effect: spec.Effect.String(), InputSchema: spec.Input, OutputSchema: spec.Output}
}

// overview answers what there is to search in.
func (c *call) overview() *findings {
	return &findings{Sources: c.sources(), Note: "search by words, e.g. {\"query\":\"list files\"}"}
}
