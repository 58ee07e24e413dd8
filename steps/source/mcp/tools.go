package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"runtime"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// tool is what a server says of one of its tools.
type tool struct {
	name     string       // as the server spells it
	function string       // the name of the function that it becomes
	raw      string       // its definition
	effect   steps.Effect // as its annotations say; of a call, as the configuration says
}

// The bounds of a list: one that passes them is cut there, with a warning.
const (
	maxTools     = 100_000
	maxPages     = 10_000
	maxListBytes = 256 << 20
)

// list asks for the tools, page by page. A tool that cannot be called is left out, with a warning.
func (n *session) list(ctx context.Context) ([]tool, *fault.Error) {
	s := n.source
	l := lister{source: s, seen: map[string]bool{}}
	cursors := map[string]bool{"": true}
	for cursor, pages := "", 1; ; pages++ {
		x := &exchange{stub: headerTools}
		_, err := n.client.ListTools(x.in(ctx), &sdk.ListToolsParams{Cursor: cursor})
		n.tap.forget(x)
		page, f := n.listed(x, err)
		if f != nil {
			return nil, f
		}
		page.Get("tools").ForEach(func(_, definition gjson.Result) bool {
			l.add(definition)
			return true
		})
		cursor = page.Get("nextCursor").String()
		switch {
		case cursor == "":
			return s.named(l.tools), nil
		case cursors[cursor]:
			s.odd("its list of tools goes in circles: what came before the circle is used")
			return s.named(l.tools), nil
		case pages >= maxPages || len(l.tools) >= maxTools || l.bytes > maxListBytes:
			s.odd("its list of tools has no end: the first %d are used", len(l.tools))
			return s.named(l.tools), nil
		}
		cursors[cursor] = true
	}
}

// listed is one page of the list.
func (n *session) listed(x *exchange, err error) (gjson.Result, *fault.Error) {
	s := n.source
	x.mu.Lock()
	defer x.mu.Unlock()
	failed := fault.New(fault.Unavailable, "MCP server %q (%s) did not list its tools: ", s.options.Name, s.options.where())
	failed.Outcome = fault.NotSent
	switch {
	case x.broken != nil:
		failed.Message += x.broken.Message
	case x.result != nil:
		page := gjson.ParseBytes(x.result)
		if page.Get("tools").IsArray() {
			return page, nil
		}
		failed.Message += "its answer holds no list"
	case x.err != nil:
		failed.Message += fault.Clip(s.scrub.clean(x.err.Get("message").String()), maxErrorText)
	case x.status != 0:
		failed.Code = statusCode(x.status)
		if n.offered {
			failed.Message += "it answered " + statusName(x.status)
		} else {
			failed.Message += s.statusText(x.status)
		}
	default:
		failed.Message += s.told(err)
		if n.process != nil && n.process.endsWithin(pipeGrace) {
			failed.Message += "; " + n.process.lastWords()
		}
	}
	return gjson.Result{}, failed
}

func (s *Source) odd(format string, args ...any) {
	s.warn(fault.New(fault.BadRequest, "MCP server "+quoted(s.options.Name)+": "+format, args...))
}

// headerTools is what the SDK decodes in place of a list: the tools of which it sends arguments as HTTP headers too.
func headerTools(result gjson.Result) []byte {
	var kept []string
	if strings.Contains(result.Raw, "x-mcp-header") {
		result.Get("tools").ForEach(func(_, definition gjson.Result) bool {
			if strings.Contains(definition.Raw, "x-mcp-header") && definition.Get("name").Type == gjson.String {
				kept = append(kept, definition.Raw)
			}
			return true
		})
	}
	return []byte(`{"tools":[` + strings.Join(kept, ",") + `]}`)
}

// lister gathers tools.
type lister struct {
	source *Source
	seen   map[string]bool
	tools  []tool
	bytes  int
}

func (l *lister) add(definition gjson.Result) {
	name := definition.Get("name")
	switch {
	case len(l.tools) >= maxTools || l.bytes > maxListBytes:
		return
	case name.Type != gjson.String || name.Str == "":
		l.source.odd("it lists a tool without a name, which is left out")
		return
	case l.seen[name.Str]:
		l.source.odd("it lists the tool %s twice: the first is used", quoted(name.Str))
		return
	}
	l.seen[name.Str] = true
	t := tool{name: name.Str, raw: ordered(definition)}
	t.effect, _, _ = hints(gjson.Get(t.raw, "annotations"))
	l.tools = append(l.tools, t)
	l.bytes += len(t.raw)
}

// ordered is a tool's definition in which the members that MCP has had from the beginning come first. What is null or stands twice
// is left out.
func ordered(definition gjson.Result) string {
	known := []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
	var o object
	add := func(key string, value gjson.Result) {
		if value.Exists() && value.Type != gjson.Null {
			o.raw(key, value.Raw)
		}
	}
	for _, key := range known {
		add(key, definition.Get(key))
	}
	definition.ForEach(func(key, value gjson.Result) bool {
		if !slices.Contains(known, key.Str) {
			known = append(known, key.Str)
			add(key.Raw[1:len(key.Raw)-1], value)
		}
		return true
	})
	return string(o.end())
}

// hints reads a tool's annotations (MCP 2025-11-25, ToolAnnotations). MCP has a tool without readOnlyHint destroy unless
// it says that it does not; here what nobody has said is a write. That a call may be repeated says nothing of its effect:
// reads may be too.
func hints(annotations gjson.Result) (effect steps.Effect, idempotent, declared bool) {
	known := func(hint string) (value, there bool) {
		r := annotations.Get(hint)
		return r.Type == gjson.True, r.IsBool()
	}
	reads, saysReads := known("readOnlyHint")
	destroys, saysDestroys := known("destructiveHint")
	idempotent, _ = known("idempotentHint")
	switch {
	case reads:
		effect = steps.Read
	case destroys:
		effect = steps.Destroy
	}
	return effect, idempotent, saysReads || saysDestroys
}

func sameTools(a, b []tool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].function != b[i].function || a[i].raw != b[i].raw {
			return false
		}
	}
	return true
}

// maxToolName keeps a function's name, the source's with it, below the registry's bound of 256 bytes.
const maxToolName = 180

// named gives the tools the names of their functions. A tool's name that a function can have stays as it is. In any other
// a slash becomes a dot and what else is not allowed an underscore, with a few digits of the name's hash, so that the same
// tool always gets the same name, and no two tools one.
func (s *Source) named(tools []tool) []tool {
	taken := map[string]bool{}
	for i := range tools {
		if plain := fitting(tools[i].name); plain == tools[i].name {
			tools[i].function = s.options.Name + "." + plain
			taken[tools[i].function] = true
		}
	}
	kept := tools[:0]
	for _, t := range tools {
		if t.function == "" {
			t.function = s.options.Name + "." + fitting(t.name)
			if strings.ReplaceAll(t.name, "/", ".") != fitting(t.name) || taken[t.function] {
				hash := sha256.Sum256([]byte(t.name))
				t.function += "_" + hex.EncodeToString(hash[:4])
			}
			if taken[t.function] {
				s.odd("the tool %s is left out: its name cannot be told from that of another", quoted(t.name))
				continue
			}
			taken[t.function] = true
		}
		kept = append(kept, t)
	}
	return kept
}

// fitting is a tool's name in the characters that names of functions have: parts of letters, digits, _ and -, with dots
// between them.
func fitting(name string) string {
	if len(name) > maxToolName {
		name = name[:maxToolName]
	}
	plain := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
			return c
		case c == '/':
			return '.'
		}
		return '_'
	}, name)
	parts := strings.Split(plain, ".")
	for i, part := range parts {
		if part == "" {
			parts[i] = "_"
		}
	}
	return strings.Join(parts, ".")
}

// functionsOf makes the functions of tools.
func (s *Source) functionsOf(tools []tool) []steps.Function {
	functions := make([]steps.Function, 0, len(tools))
	paths := s.paths(tools)
	for i := range tools {
		t := &tools[i]
		spec := s.spec(t)
		spec.Path = paths[t.function]
		for _, path := range readingsOf(strings.TrimPrefix(t.function, s.options.Name+"."), s.options.Names) {
			spec.Readings = append(spec.Readings, s.options.Name+"."+path)
		}
		functions = append(functions, steps.Function{
			Spec:   spec,
			Call:   func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, t, args) },
			Prompt: s.prompt(),
		})
	}
	return functions
}

// paths reads the names of tools as resources and actions, by the names of their functions. The first list decides how.
func (s *Source) paths(tools []tool) map[string]string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = strings.TrimPrefix(t.function, s.options.Name+".")
	}
	s.mu.Lock()
	if s.names == "" && len(tools) > 0 {
		s.names = formOf(names)
	}
	form := s.names
	s.mu.Unlock()
	paths := map[string]string{}
	for name, path := range pathsOf(names, form, s.options.Names != "") {
		paths[s.options.Name+"."+name] = s.options.Name + "." + path
	}
	return paths
}

// Functions are the tools that the server lists in this session. They are called in it (see Call). Errors as for Do.
func (l *Link) Functions(ctx context.Context) ([]steps.Function, error) {
	n, f := l.acquire(ctx)
	if f != nil {
		return nil, f
	}
	defer l.release(n)
	tools, f := n.list(ctx)
	if f != nil {
		return nil, f
	}
	return l.source.inSession(l.source.functionsOf(tools)), nil
}

// inSession gives functions of a session's list the paths of the shared list, by which rules match, or none if that list does
// not hold them, and keeps what they are in their own list for display.
func (s *Source) inSession(functions []steps.Function) []steps.Function {
	shared := map[string]string{}
	for _, fn := range s.Functions() {
		shared[fn.Name] = fn.Path
	}
	for i := range functions {
		fn := &functions[i]
		if path := shared[fn.Name]; path != fn.Path {
			fn.Path, fn.SessionPath = path, cmp.Or(fn.Path, fn.Name)
		}
	}
	return functions
}

// prompt reports whether calls always return soon after the end of their context, whatever the server does. Pipes of
// Windows have no deadlines, and the tokens of a login may be renewed without heed of the context.
func (s *Source) prompt() bool {
	return s.options.OAuth == nil && (s.options.URL != "" || runtime.GOOS != "windows")
}

// anyObject is the input schema of a tool that has none.
const anyObject = `{"type":"object"}`

func (s *Source) spec(t *tool) steps.Spec {
	definition := gjson.Parse(t.raw)
	spec := steps.Spec{Name: t.function, Description: describe(definition, t.name), Listing: json.RawMessage(t.raw)}
	within := func(schema gjson.Result) json.RawMessage { // no copy: lists may be large
		end := schema.Index + len(schema.Raw)
		return spec.Listing[schema.Index:end:end]
	}
	spec.Input = json.RawMessage(anyObject)
	if schema := definition.Get("inputSchema"); schema.IsObject() {
		spec.Input = within(schema)
	}
	if schema := definition.Get("outputSchema"); schema.IsObject() {
		spec.Output = within(schema)
	}
	spec.Effect, spec.Idempotent, spec.EffectDeclared = hints(definition.Get("annotations"))
	spec.Local = definition.Get("annotations.openWorldHint").Type == gjson.False
	return spec
}

// describe is what the server says of a tool, else its title, else its name.
func describe(definition gjson.Result, name string) string {
	for _, path := range []string{"description", "title", "annotations.title"} {
		if text := strings.TrimSpace(definition.Get(path).String()); text != "" {
			return text
		}
	}
	return "The tool " + quoted(name) + "; its server does not describe it."
}
