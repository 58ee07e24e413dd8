package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/steps"
)

// mock is a service made of a document: it finds the operation by method and path template, reads the request as the
// document has it (with net/url, mime/multipart and encoding/json, not with the code under test), checks what it has
// understood against the operation's schema, and answers it: {"operation","arguments"}.
type mock struct {
	base      string // of the paths
	endpoints []endpoint
	calls     atomic.Int64
	// before sees each request first; true: it has answered.
	before func(http.ResponseWriter, *http.Request) bool
}

type endpoint struct {
	op      *operation
	path    *regexp.Regexp
	names   []string
	literal int // bytes of fixed text
	schema  view
	entry   *steps.Entry
}

func newMock(tb interface {
	Helper()
	Fatal(args ...any)
}, base string, ops []operation) *mock {
	tb.Helper()
	m := &mock{base: base}
	for i := range ops {
		op := &ops[i]
		r := endpoint{op: op, schema: viewOf(op.input)}
		pattern, rest := "^", op.path[:strings.IndexAny(op.path+"?", "?#")]
		for rest != "" {
			where := braces.FindStringIndex(rest)
			if where == nil {
				where = []int{len(rest), len(rest)}
			}
			pattern += regexp.QuoteMeta(escapedPath(rest[:where[0]]))
			r.literal += where[0]
			if where[0] < where[1] {
				r.names = append(r.names, rest[where[0]+1:where[1]-1])
				pattern += "([^/]+)"
			}
			rest = rest[where[1]:]
		}
		r.path = regexp.MustCompile(pattern + "$")
		var registry *steps.Registry
		registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "x." + op.name, Input: op.input}, Call: nothing}}, nil)
		if err != nil {
			tb.Fatal(err)
		}
		r.entry = registry.All()[0]
		m.endpoints = append(m.endpoints, r)
	}
	return m
}

// ServeHTTP implements http.Handler.
func (m *mock) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	m.calls.Add(1)
	if m.before != nil && m.before(w, request) {
		return
	}
	path, ok := strings.CutPrefix(request.URL.EscapedPath(), m.base)
	e, values := (*endpoint)(nil), []string(nil)
	for i := range m.endpoints {
		r := &m.endpoints[i]
		if got := r.path.FindStringSubmatch(path); ok && r.op.method == request.Method && got != nil && (e == nil ||
			r.literal > e.literal) {
			e, values = r, got[1:]
		}
	}
	if e == nil {
		http.Error(w, "no operation for "+request.Method+" "+request.URL.EscapedPath(), http.StatusNotFound)
		return
	}
	args, err := e.understand(request, values)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if faults := e.entry.Check(args, nil); len(faults) > 0 {
		http.Error(w, fmt.Sprintf("%s: %v", args, faults[0]), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fmt.Fprintf(w, `{"operation":%q,"arguments":%s}`, e.op.label, args)
}

func (r *endpoint) understand(request *http.Request, segments []string) ([]byte, error) {
	args := map[string]any{}
	d := &decoding{request: request, query: rawPairs(request.URL.RawQuery, "&")}
	for _, line := range request.Header["Cookie"] {
		d.cookies = append(d.cookies, rawPairs(line, "; ")...)
	}
	// A free-form object that is taken apart comes last: it has what no other parameter claims.
	last := func(p *parameter) bool {
		return p.explode && p.mediaType == "" && p.style != "deepObject" && r.schema.property(p.arg).is("object")
	}
	order := make([]*parameter, 0, len(r.op.parameters))
	for i := range r.op.parameters {
		if !last(&r.op.parameters[i]) {
			order = append(order, &r.op.parameters[i])
		}
	}
	for i := range r.op.parameters {
		if last(&r.op.parameters[i]) {
			order = append(order, &r.op.parameters[i])
		}
	}
	for _, p := range order {
		d.segment = ""
		if at := slices.Index(r.names, p.name); p.in == "path" && at >= 0 {
			d.segment = segments[at]
		}
		value, given, err := d.parameter(p, r.schema.property(p.arg))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.arg, err)
		}
		if given {
			args[p.arg] = value
		}
	}
	if r.op.body != nil {
		if err := decodeBody(args, r.op.body, request, r.schema); err != nil {
			return nil, err
		}
	}
	return json.Marshal(args)
}

// sourceOf makes a source of operations without a document.
func sourceOf(tb testing.TB, o Options, doc *document) *Source {
	tb.Helper()
	s, err := trySource(o, doc)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func trySource(o Options, doc *document) (*Source, error) {
	o.Name, o.Spec = "api", "https://docs.example.com/v1/openapi.json"
	s, err := prepare(&o)
	if err != nil {
		return nil, err
	}
	if s.current, err = s.assemble(doc); err != nil {
		return nil, err
	}
	s.status.State = steps.StateReady
	return s, nil
}
