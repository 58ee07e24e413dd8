package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/search"
)

// Bounds of what a search is asked and answers.
const (
	searchPage   = 10   // functions of a page
	searchTokens = 2000 // of an answer without schemas
	noteTokens   = 40   // of it, for what is added at the end
	maxQuery     = 4096 // bytes
	maxName      = 100  // characters of a name that is told back
	maxNearest   = 20   // unknown names that are told what is near
)

// How long a search waits for sources that are starting: if it has found something, and if it has not.
const (
	searchPause = 2 * time.Second
	searchWait  = 5 * time.Second
)

// searched is the index over all functions, made again after they have changed. A caller is shown only what is in its
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

// searchArguments is what is asked of search.
type searchArguments struct {
	// Words; none: the sources.
	Query string `json:"query" tool:""`
	// Describes these in full instead.
	Names []string `json:"names" most:"100" tool:""`
	// True: input and output schemas.
	Schema bool `json:"schema" tool:""`
	// True: also signatures that were given before in this session.
	Again bool `json:"again"`
	// True: names alone.
	Lite bool `json:"lite"`
	// From 1, 10 functions each.
	Page int `json:"page"`
}

// search finds functions by words, or describes those that are named.
func (c *call) search() *sdk.CallToolResult {
	if isFetch(c.args, true) {
		return c.fetch()
	}
	f := searchArguments{Page: 1, Lite: c.now.Lite}
	a := readArguments(c.args, &f)
	f.Query = strings.TrimSpace(f.Query)
	if f.Names != nil && (f.Query != "" || f.Page > 1) {
		a.fault(fault.BadRequest, "/names", "names go with neither query nor page: all that are named are described")
	}
	if len(f.Query) > maxQuery {
		a.fault(fault.LimitExceeded, "/query", "the query has %d bytes, at most %d are looked for: a few words find more", len(f.Query), maxQuery)
	}
	if len(a.faults) > 0 {
		return c.refuse(a.faults...)
	}
	found := &findings{}
	switch {
	case f.Names != nil:
		c.describe(found, &f)
	case f.Query == "":
		found.Sources, found.Note = c.sources(), `search by words, e.g. {"query":"list files"}`
	default:
		c.rank(found, &f)
	}
	if found.nothing() {
		found.Note = "nothing fits: use other words, or none for a list of the sources"
	}
	tokens := searchTokens
	if f.Schema {
		tokens = 0
	}
	result, whole := c.deliver(marshal(found), tokens)
	if whole {
		for _, entry := range found.given {
			c.session.learn(entry, f.Names != nil || summedUp(entry))
		}
	}
	return result
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

// nothing reports whether there is nothing to tell.
func (f *findings) nothing() bool {
	return f.Note == "" && f.Functions == nil && f.Onecall == nil && f.Sources == nil && f.Known == nil && f.Unknown == nil
}

// rank finds one page of the functions that fit the words best.
func (c *call) rank(found *findings, f *searchArguments) {
	hits := c.ranked(f.Query, searchPause)
	if len(hits) == 0 {
		hits = c.ranked(f.Query, searchWait)
	}
	start := min((f.Page-1)*searchPage, len(hits))
	end := min(start+searchPage, len(hits))
	entries := make([]*steps.Entry, 0, searchPage)
	for _, hit := range hits[start:end] {
		entries = append(entries, hit.Entry)
	}
	found.Down, found.More = c.down(), len(hits)-end
	switch {
	case found.More > 0:
		found.Note = "page " + itoa(f.Page+1) + " has the next"
	case f.Page > 1 && start == end:
		found.Note = "past the end: " + itoa(len(hits)) + " fit"
	}
	c.show(found, entries, f)
}

// ranked are all functions of the caller's that fit, once no source is starting, or after patience.
func (c *call) ranked(query string, patience time.Duration) []search.Hit {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	view := steps.Await(ctx, c.view, nil)
	all := c.index(view)
	return all.Find(query, func(spec *steps.Spec) bool { return view.Has(spec.Name) }, 0)
}

// index is what is searched: all functions, or those of the client's own sessions with upstreams if they differ.
func (c *call) index(view *steps.Registry) *search.Index {
	if own := c.own; own != nil && view != c.toolset.view().Registry() {
		return own.searched.over(view)
	}
	return c.toolset.server.searched.over(c.now.Catalog.Registry())
}

// describe tells of the functions that are named, and of what onecall's own tools take.
func (c *call) describe(found *findings, f *searchArguments) {
	view := c.await(f.Names)
	var entries []*steps.Entry
	for _, name := range f.Names {
		if manual := c.toolset.manualOf(name, f.Schema); manual != nil {
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
		unknown := unknownShown{Name: fault.ClipRunes(name, maxName)}
		switch g, ok := fault.As(err); {
		case len(found.Unknown) >= maxNearest:
		case steps.Down(c.view, name) != nil:
			unknown.Message = shortened(steps.Down(c.view, name))
		case ok:
			unknown.Nearest = g.Nearest
		}
		found.Unknown = append(found.Unknown, unknown)
	}
	c.show(found, entries, f)
}

// await gives the view once it has the names, or no source is starting any more.
func (c *call) await(names []string) *steps.Registry {
	return steps.Await(c.ctx, c.view, func(now *steps.Registry) bool {
		for _, name := range names {
			if c.toolset.manualOf(name, false) == nil && !now.HasName(name) && steps.Pending(c.view, name) {
				return false
			}
		}
		return true
	})
}

// show adds functions in the form that is asked for. Where not all of it fits, descriptions give way to summaries, and
// those to names.
func (c *call) show(found *findings, entries []*steps.Entry, f *searchArguments) {
	if f.Lite && !f.Schema {
		for _, entry := range entries {
			found.Functions = append(found.Functions, marshal(entry.Spec().Name))
		}
		return
	}
	count := c.now.Counter
	left := c.limit(searchTokens, 0) - count.Count(marshal(found), -1) - noteTokens
	for _, entry := range entries {
		if f.Schema {
			found.Functions = append(found.Functions, marshal(schemaOf(entry)))
			continue
		}
		if c.session.knows(entry, f.Names != nil) && !f.Again {
			found.Known = append(found.Known, entry.Spec().Name)
			found.Note = "again:true repeats"
			continue
		}
		shown := marshal(signed(entry, entry.Summary()))
		if f.Names != nil {
			if whole := marshal(signed(entry, entry.Spec().Description)); count.Count(whole, left) <= left {
				shown = whole
			}
		}
		cost := count.Count(shown, left)
		if cost > left {
			found.Functions = append(found.Functions, marshal(entry.Spec().Name))
			found.Note = "not all fits: names alone can be asked for by names"
			continue
		}
		left -= cost
		found.Functions, found.given = append(found.Functions, shown), append(found.given, entry)
	}
}

// signed is a function on one line: how to call it, what it does to the world if it does not only read, and what for.
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

// summedUp reports whether a summary is all that there is to say of a function.
func summedUp(entry *steps.Entry) bool {
	return strings.TrimSuffix(strings.TrimSpace(entry.Spec().Description), ".") == entry.Summary()
}

// functionShown is a function with all that is known of it.
type functionShown struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Effect       string          `json:"effect"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Seen         json.RawMessage `json:"seen,omitempty"` // the shape of the results so far, where no output schema is declared
}

func schemaOf(entry *steps.Entry) functionShown {
	spec := entry.Spec()
	shown := functionShown{Name: spec.Name, Description: spec.Description, Effect: spec.Effect.String(), InputSchema: spec.Input, OutputSchema: spec.Output}
	if seen := entry.Seen(); seen != nil {
		shown.Seen = seen.Schema
	}
	return shown
}
