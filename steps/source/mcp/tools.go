package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// tool is a tool of the server.
type tool struct {
	name       string       // the name as the server spells it
	method     string       // the request that calls it, if it is an offer and no tool; "": tools/call
	function   string       // name of its function
	raw        string       // raw definition
	headers    bool         // some arguments are also sent as HTTP headers, which the SDK does
	effect     steps.Effect // the effect as annotated; for a call, as configured
	idempotent bool         // annotated as safe to repeat
	task       bool         // it runs only as a task
}

// Limits of a list; a longer one is cut off with a warning.
const (
	maxTools     = 100_000
	maxPages     = 10_000
	maxListBytes = 256 << 20
)

// list reads the tools page by page. It drops unusable tools with a warning.
func (c *connection) list(ctx context.Context) ([]tool, *fault.Error) {
	s := c.source
	list := toolList{source: s, seen: map[string]bool{}}
	cursors := map[string]bool{"": true}
	for cursor, pages := "", 1; ; pages++ {
		pending := &pendingRequest{stub: headerTools}
		_, err := c.client.ListTools(pending.withContext(ctx), &sdk.ListToolsParams{Cursor: cursor})
		c.tap.forget(pending)
		page, f := c.page(pending, err)
		if f != nil {
			return nil, f
		}
		page.Get("tools").ForEach(func(_, definition gjson.Result) bool {
			list.add(definition)
			return true
		})
		cursor = page.Get("nextCursor").String()
		switch {
		case cursor == "":
			return s.assignNames(list.tools), nil
		case cursors[cursor]:
			s.warnf("its list of tools repeats a page: the pages before the repetition are used")
			return s.assignNames(list.tools), nil
		case pages >= maxPages || len(list.tools) >= maxTools || list.bytes > maxListBytes:
			s.warnf("its list of tools has no end: the first %d are used", len(list.tools))
			return s.assignNames(list.tools), nil
		}
		cursors[cursor] = true
	}
}

// page returns one page of the list from pending, or the fault that pending or err holds.
func (c *connection) page(pending *pendingRequest, err error) (gjson.Result, *fault.Error) {
	s := c.source
	pending.mu.Lock()
	defer pending.mu.Unlock()
	c.doubt(pending)
	failed := fault.New(fault.Unavailable, "MCP server %q (%s) did not list its tools: ", s.options.Name, s.options.address())
	failed.Outcome = fault.NotSent
	switch {
	case pending.failure != nil:
		failed.Message += s.withoutName(pending.failure.Message)
	case pending.result != nil:
		page := gjson.ParseBytes(pending.result)
		if page.Get("tools").IsArray() {
			return page, nil
		}
		failed.Message += "its answer holds no list"
	case pending.err != nil && c.withoutTools(pending.err):
		return gjson.Result{}, nil
	case pending.err != nil:
		failed.Message += fault.Clip(s.scrub.clean(pending.err.rpc().Message), maxErrorText)
	case pending.status != 0:
		failed.Code = statusCode(pending.status)
		if errors.Is(err, sdk.ErrSessionMissing) {
			c.cancel() // the SDK reports it too late for the next request
		}
		if c.serving {
			failed.Message += "it answered " + statusName(pending.status)
		} else {
			failed.Message += s.statusText(pending.status)
		}
	default:
		failed.Message += s.errorText(err)
		if c.process != nil {
			failed.Message += c.process.lastWords()
		}
	}
	return gjson.Result{}, failed
}

func (s *Source) warnf(format string, args ...any) {
	s.warn(fault.New(fault.BadRequest, "MCP server "+quoted(s.options.Name)+": "+format, args...))
}

// paramHeader marks arguments that are also sent as HTTP headers (MCP 2026-07-28, "Custom Headers from Tool Parameters").
const paramHeader = "x-mcp-header"

// headerTools is the stub for lists. It keeps only the tools with arguments that the SDK sends as headers.
func headerTools(result gjson.Result) []byte {
	var tools []string
	if strings.Contains(result.Raw, paramHeader) {
		result.Get("tools").ForEach(func(_, definition gjson.Result) bool {
			if strings.Contains(definition.Raw, paramHeader) && definition.Get("name").Type == gjson.String {
				tools = append(tools, definition.Raw)
			}
			return true
		})
	}
	return []byte(`{"tools":[` + strings.Join(tools, ",") + `]}`)
}

// toolList collects the usable tools of a list.
type toolList struct {
	source *Source
	seen   map[string]bool
	tools  []tool
	bytes  int
}

func (list *toolList) add(definition gjson.Result) {
	name := definition.Get("name")
	switch {
	case len(list.tools) >= maxTools || list.bytes > maxListBytes:
		return
	case name.Type != gjson.String || name.Str == "":
		list.source.warnf("it lists a tool without a name, which is left out")
		return
	case list.seen[name.Str]:
		list.source.warnf("it lists the tool %s twice: the first is used", quoted(name.Str))
		return
	}
	list.seen[name.Str] = true
	t := tool{name: name.Str, raw: ordered(definition), headers: strings.Contains(definition.Raw, paramHeader)}
	t.effect, t.idempotent, _ = hints(gjson.Get(t.raw, "annotations"))
	t.task = definition.Get("execution.taskSupport").Str == "required"
	list.tools = append(list.tools, t)
	list.bytes += len(t.raw)
}

// ordered returns a tool's definition without nulls, empty objects that are written as arrays, and duplicates; the members of the first MCP
// version come first.
func ordered(definition gjson.Result) string {
	known := []string{"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
	var o objectBuilder
	add := func(key string, value gjson.Result) {
		if value.Exists() && value.Type != gjson.Null && !(isEmptyArray(value) && slices.Contains(objectMembers, key)) {
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

// hints reads a tool's annotations (MCP 2025-11-25, ToolAnnotations). declared reports whether they state an effect. An unannotated
// tool is a write, although MCP considers it destructive. idempotentHint does not change the effect.
func hints(annotations gjson.Result) (effect steps.Effect, idempotent, declared bool) {
	read := func(hint string) (value, ok bool) {
		r := annotations.Get(hint)
		return r.Type == gjson.True, r.IsBool()
	}
	reads, declaresRead := read("readOnlyHint")
	destroys, declaresDestroy := read("destructiveHint")
	idempotent, _ = read("idempotentHint")
	switch {
	case reads:
		effect = steps.Read
	case destroys:
		effect = steps.Destroy
	}
	return effect, idempotent, declaresRead || declaresDestroy
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

// maxToolName bounds, in bytes, the tool's part of a function name, which keeps whole names below the registry's limit of 256 bytes.
const maxToolName = 180

// assignNames sets the function names of the tools. Valid names stay as they are. In others a slash becomes a dot, and any other
// invalid character an underscore. If more than slashes had to change, or the new name is taken, part of a hash of the tool's name is
// appended, so that names are stable and unique.
func (s *Source) assignNames(tools []tool) []tool {
	taken := map[string]bool{}
	for i := range tools {
		if plain := sanitize(tools[i].name); plain == tools[i].name {
			tools[i].function = s.options.Name + "." + plain
			taken[tools[i].function] = true
		}
	}
	usable := tools[:0]
	for _, t := range tools {
		if t.function == "" {
			t.function = s.options.Name + "." + sanitize(t.name)
			if strings.ReplaceAll(t.name, "/", ".") != sanitize(t.name) || taken[t.function] {
				hash := sha256.Sum256([]byte(t.name))
				t.function += "_" + hex.EncodeToString(hash[:4])
			}
			if taken[t.function] {
				s.warnf("the tool %s is left out: its function would have the name of another", quoted(t.name))
				continue
			}
			taken[t.function] = true
		}
		usable = append(usable, t)
	}
	return usable
}

// sanitize makes a tool's name a valid function name: segments of letters, digits, _ and -, separated by dots.
func sanitize(name string) string {
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
	segments := strings.Split(plain, ".")
	for i, segment := range segments {
		if segment == "" {
			segments[i] = "_"
		}
	}
	return strings.Join(segments, ".")
}

// functionsOf returns the functions of tools, and those beside them that a server with these capabilities has; nil: not known.
func (s *Source) functionsOf(tools []tool, capabilities *sdk.ServerCapabilities) []steps.Function {
	functions := make([]steps.Function, 0, len(tools))
	paths := s.paths(tools)
	for i := range tools {
		t := &tools[i]
		spec := s.spec(t)
		spec.Path = paths[t.function]
		if own := s.options.Name + "." + t.name; own != t.function {
			spec.OwnName = own
		}
		for _, path := range possiblePaths(strings.TrimPrefix(t.function, s.options.Name+"."), s.options.Names) {
			spec.PossiblePaths = append(spec.PossiblePaths, s.options.Name+"."+path)
		}
		functions = append(functions, steps.Function{
			Spec:   spec,
			Call:   func(ctx context.Context, args []byte) ([]byte, error) { return s.call(ctx, t, args) },
			Prompt: s.prompt(),
		})
	}
	return append(functions, s.offersOf(capabilities, functions)...)
}

// paths returns the paths of functions whose names split into resource and action. The first list decides the form.
func (s *Source) paths(tools []tool) map[string]string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = strings.TrimPrefix(t.function, s.options.Name+".")
	}
	s.mu.Lock()
	if s.nameForm == "" && len(tools) > 0 {
		s.nameForm = detectForm(names)
	}
	form := s.nameForm
	s.mu.Unlock()
	paths := map[string]string{}
	for name, path := range pathsOf(names, form, s.options.Names != "") {
		paths[s.options.Name+"."+name] = s.options.Name + "." + path
	}
	return paths
}

// Functions lists the server's functions in this session. Call them with a context of CallContext. Errors as for Do.
func (u *UpstreamSession) Functions(ctx context.Context) ([]steps.Function, error) {
	var functions []steps.Function
	err := u.use(ctx, func(conn *connection) error {
		tools, f := conn.list(ctx)
		if f != nil {
			return f
		}
		functions = u.source.functionsOf(tools, conn.client.InitializeResult().Capabilities)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return u.source.inSession(functions), nil
}

// inSession replaces each function's path with its path in the shared list, because rules match the shared path;
// "" if the function is not in that list. SessionPath keeps the former path, else the name, for display.
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

// prompt reports whether calls always return soon after the end of their context. Pipes on Windows have no deadlines, and
// renewing a login may ignore the context.
func (s *Source) prompt() bool {
	return s.options.OAuth == nil && (s.options.URL != "" || runtime.GOOS != "windows")
}

// anyObject is the input schema of a tool without one.
const anyObject = `{"type":"object"}`

func (s *Source) spec(t *tool) steps.Spec {
	definition := gjson.Parse(t.raw)
	spec := steps.Spec{Name: t.function, Description: describe(definition, t.name), Listing: json.RawMessage(t.raw)}
	subslice := func(schema gjson.Result) json.RawMessage { // a slice of the definition, because lists may be large
		end := schema.Index + len(schema.Raw)
		return spec.Listing[schema.Index:end:end]
	}
	spec.Input = json.RawMessage(anyObject)
	if schema := definition.Get("inputSchema"); schema.IsObject() {
		spec.Input = subslice(schema)
	}
	if schema := definition.Get("outputSchema"); schema.IsObject() {
		spec.Output = subslice(schema)
	}
	spec.Results = resultForms
	spec.DefaultTimeout, spec.Patient = s.options.CallTimeout, true
	spec.Effect, spec.Idempotent, spec.EffectDeclared = hints(definition.Get("annotations"))
	spec.Local = definition.Get("annotations.openWorldHint").Type == gjson.False
	return spec
}

// describe returns the tool's description, else its title, else a sentence with its name.
func describe(definition gjson.Result, name string) string {
	for _, path := range []string{"description", "title", "annotations.title"} {
		if text := strings.TrimSpace(definition.Get(path).String()); text != "" {
			return text
		}
	}
	return "The tool " + quoted(name) + "; its server does not describe it."
}
