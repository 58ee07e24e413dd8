package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/decode"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/search"
)

// Limits of a search and its answer.
const (
	searchPage   = 10   // functions per page
	searchTokens = 2000 // tokens of an answer without schemas
	noteTokens   = 40   // tokens reserved for notes at the end
	maxQuery     = 4096 // bytes
	maxName      = 100  // characters of an echoed name
	maxNearest   = 20   // unknown names with suggestions
)

// How long a search waits for sources that are starting: if it has hits, and if it has none.
const (
	searchPause = 2 * time.Second
	searchWait  = 5 * time.Second
)

// searchIndex is an index of all functions. It is built again after each change. Callers see only the hits in their view.
type searchIndex struct {
	mu       sync.Mutex
	registry *steps.Registry
	index    *search.Index
}

// forRegistry returns the index of r, which it builds if the last call was for another registry.
func (s *searchIndex) forRegistry(r *steps.Registry) *search.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registry != r {
		s.registry, s.index = r, search.New(r)
	}
	return s.index
}

var searchTable = decode.TableOf[searchArguments]()

// searchArguments are the arguments of search.
type searchArguments struct {
	// Words; none: the sources.
	Query string `json:"query" tool:""`
	// Describes these in full instead.
	Names []string `json:"names" kind:"list" max:"100" tool:""`
	// True: input and output schemas.
	Schema bool `json:"schema" tool:""`
	// True: also signatures that were given before in this session.
	Again bool `json:"again"`
	// True: only names.
	Lite bool `json:"lite"`
	// The page, from 1, of 10 functions.
	Page int `json:"page" kind:"count"`
}

// search finds functions by words, or describes named ones.
func (c *call) search() *sdk.CallToolResult {
	if isFetch(c.args, true) {
		return c.fetch()
	}
	f := searchArguments{Page: 1, Lite: c.now.Lite}
	a := readArguments(c.args, searchTable, &f)
	f.Query = strings.TrimSpace(f.Query)
	if f.Names != nil && (f.Query != "" || f.Page > 1) {
		a.Fault(fault.BadRequest, "/names", "names cannot be combined with query or page: all named functions are described")
	}
	if len(f.Query) > maxQuery {
		a.Fault(fault.LimitExceeded, "/query", "the query has %d bytes, at most %d are allowed: a few words find more", len(f.Query), maxQuery)
	}
	if len(a.Faults.List) > 0 {
		return c.refuse(a.Faults.List...)
	}
	matches := &findings{}
	switch {
	case f.Names != nil:
		c.describe(matches, &f)
	case f.Query == "":
		matches.Sources, matches.Note = c.sources(), `search by words, e.g. {"query":"list files"}`
	default:
		c.rank(matches, &f)
	}
	if matches.isEmpty() {
		matches.Note = "no match: try other words, or none to list the sources"
	}
	tokens := searchTokens
	if f.Schema {
		tokens = 0
	}
	result, whole := c.deliver(marshal(matches), tokens)
	if whole {
		for _, entry := range matches.signatures {
			c.session.learn(entry, f.Names != nil || summaryIsAll(entry))
		}
	}
	return result
}

// findings is the answer of search.
type findings struct {
	Onecall   map[string]json.RawMessage `json:"onecall,omitempty"` // builtin tools
	Sources   []sourceState              `json:"sources,omitempty"`
	Down      []sourceState              `json:"down,omitempty"` // before the functions, which may be far matches for one of theirs
	Functions []json.RawMessage          `json:"functions,omitempty"`
	Known     []string                   `json:"known,omitempty"` // the client already has their signatures
	Unknown   []unknownName              `json:"unknown,omitempty"`
	More      int                        `json:"more,omitempty"` // hits after this page
	Note      string                     `json:"note,omitempty"`

	signatures []*steps.Entry // functions with signatures in the answer
}

// unknownName is a name without a function.
type unknownName struct {
	Name    string   `json:"name"`
	Nearest []string `json:"nearest,omitempty"`
	Message string   `json:"message,omitempty"`
}

// isEmpty reports whether nothing was found.
func (f *findings) isEmpty() bool {
	return f.Note == "" && f.Functions == nil && f.Onecall == nil && f.Sources == nil && f.Known == nil && f.Unknown == nil
}

// rank finds one page of the best hits.
func (c *call) rank(result *findings, f *searchArguments) {
	hits := c.hits(f.Query, searchPause)
	if len(hits) == 0 {
		hits = c.hits(f.Query, searchWait)
	}
	start := min((f.Page-1)*searchPage, len(hits))
	end := min(start+searchPage, len(hits))
	entries := make([]*steps.Entry, 0, searchPage)
	for _, hit := range hits[start:end] {
		entries = append(entries, hit.Entry)
	}
	result.Down, result.More = c.downSources(), len(hits)-end
	switch {
	case result.More > 0:
		result.Note = "page " + itoa(f.Page+1) + " has the next"
	case f.Page > 1 && start == end:
		result.Note = "past the end: " + itoa(len(hits)) + " match"
	}
	c.show(result, entries, f)
}

// hits returns the caller's functions that match, once no source is starting or the timeout is over.
func (c *call) hits(query string, timeout time.Duration) []search.Hit {
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	view := steps.Await(ctx, c.view, nil)
	all := c.index(view)
	return all.Find(query, func(spec *steps.Spec) bool { return view.Has(spec.Name) }, 0)
}

// index returns the index to search: all functions, or those of the client's own view.
func (c *call) index(view *steps.Registry) *search.Index {
	if v := c.clientView; v != nil && view != c.toolset.view().Registry() {
		return v.searchIndex.forRegistry(view)
	}
	if c.toolset.rights.Credentials != "" { // it may have functions that others do not have
		return c.toolset.searchIndex.forRegistry(view)
	}
	return c.toolset.server.searchIndex.forRegistry(c.now.Catalog.Registry())
}

// describe describes named functions and builtin tools.
func (c *call) describe(result *findings, f *searchArguments) {
	view := c.await(f.Names)
	var entries []*steps.Entry
	for _, name := range f.Names {
		if manual := c.toolset.manualOf(name, f.Schema); manual != nil {
			if result.Onecall == nil {
				result.Onecall = map[string]json.RawMessage{}
			}
			result.Onecall[name] = manual
			continue
		}
		entry, err := view.Resolve(name)
		if err == nil {
			entries = append(entries, entry)
			continue
		}
		unknown := unknownName{Name: fault.ClipRunes(name, maxName)}
		switch g, ok := fault.As(err); {
		case len(result.Unknown) >= maxNearest:
		case steps.Unavailable(c.view, name) != nil:
			unknown.Message = shortened(steps.Unavailable(c.view, name))
		case ok:
			unknown.Nearest = g.Nearest
		}
		result.Unknown = append(result.Unknown, unknown)
	}
	c.show(result, entries, f)
}

// await returns the view once it has the names, or no source is starting.
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

// show adds functions in the requested form. If space runs out, descriptions are replaced by summaries, and those by names.
func (c *call) show(result *findings, entries []*steps.Entry, f *searchArguments) {
	if f.Lite && !f.Schema {
		for _, entry := range entries {
			result.Functions = append(result.Functions, marshal(entry.Spec().Name))
		}
		return
	}
	count := c.now.Counter
	remaining := c.limit(searchTokens, 0) - count.Count(marshal(result), -1) - noteTokens
	for _, entry := range entries {
		if f.Schema {
			result.Functions = append(result.Functions, marshal(schemaOf(entry)))
			continue
		}
		if c.session.knows(entry, f.Names != nil) && !f.Again {
			result.Known = append(result.Known, entry.Spec().Name)
			result.Note = "again:true repeats"
			continue
		}
		shown := marshal(signatureLine(entry, entry.Summary()))
		if f.Names != nil {
			if whole := marshal(signatureLine(entry, entry.Spec().Description)); count.Count(whole, remaining) <= remaining {
				shown = whole
			}
		}
		cost := count.Count(shown, remaining)
		if cost > remaining {
			result.Functions = append(result.Functions, marshal(entry.Spec().Name))
			result.Note = "the answer is full: ask for these functions by names"
			continue
		}
		remaining -= cost
		result.Functions, result.signatures = append(result.Functions, shown), append(result.signatures, entry)
	}
}

// signatureLine returns a function on one line: signature, effect unless it only reads, and description.
func signatureLine(entry *steps.Entry, description string) string {
	text := entry.Signature()
	if effect := entry.Spec().Effect; effect != steps.Read {
		text += " [" + effect.String() + "]"
	}
	if description != "" {
		text += " // " + description
	}
	return text
}

// summaryIsAll reports whether the summary is the whole description.
func summaryIsAll(entry *steps.Entry) bool {
	return strings.TrimSuffix(strings.TrimSpace(entry.Spec().Description), ".") == entry.Summary()
}

// functionDetails is a function with its schemas.
type functionDetails struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Effect       string          `json:"effect"`
	InputSchema  json.RawMessage `json:"inputSchema,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	Seen         json.RawMessage `json:"seen,omitempty"` // shape of earlier results, without an output schema
}

func schemaOf(entry *steps.Entry) functionDetails {
	spec := entry.Spec()
	shown := functionDetails{
		Name: spec.Name, Description: spec.Description, Effect: spec.Effect.String(), InputSchema: spec.Input, OutputSchema: spec.Output,
	}
	if seen := entry.ResultShape(); seen != nil {
		shown.Seen = seen.Schema
	}
	return shown
}
