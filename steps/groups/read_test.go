package groups

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// lab returns a dispatcher over functions with awkward arguments.
func lab(t testing.TB) *Dispatcher {
	t.Helper()
	object := func(names ...string) string {
		var properties []string
		for _, name := range names {
			properties = append(properties, `"`+name+`":{}`)
		}
		return `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`
	}
	aliased := spec("net.device.update", object("repoId", "name"))
	aliased.Aliases = map[string]string{"repo_id": "repoId"}
	view := registryOf(t,
		spec("net.device.list", object("site", "limit", "page", "query")),
		spec("net.device.get", object("id", "repoId")),
		aliased,
		spec("net.device.interface.list", object("device")),
		spec("net.device_type.list", object()),
		spec("net.rack.list", object()),
		spec("net.rack.read_graph", ""),
		spec("net.rule.show", object("resource", "id")),
		spec("net.rule.apply", object("action", "params")),
		spec("net.tls.probe", object("verify", "host", "lite")),
		spec("net.ad.spend", object("budget", "id")),
		spec("net.ad.print", object("schema")),
		spec("net.tls.help", object("id")),
	)
	a := mustNew(t, &Config{Groups: []Group{{Name: "lab", Resources: []string{"net"}}}, Hoist: []string{"repoId"}}).Arrange(view)
	return a.Dispatchers[0]
}

// dispatchers are the dispatchers of the transcripts.
var dispatchers = map[string]func(testing.TB) *Dispatcher{
	"lab":     lab,
	"network": network,
	"hoisted": func(t testing.TB) *Dispatcher {
		view := registryOf(t, spec("s.free", ""), spec("s.card", `{"type":"object","properties":{"repo_id":{}},"additionalProperties":false}`))
		c := &Config{Groups: []Group{{Name: "g", Resources: []string{"s"}}}, Hoist: []string{"repoId", "org"}}
		return mustNew(t, c).Arrange(view).Dispatchers[0]
	},
	"nested": func(t testing.TB) *Dispatcher {
		c := &Config{Groups: []Group{{Name: "g", Resources: []string{"*"}}}}
		return mustNew(t, c).Arrange(registry(t, "g.x.c.b.delete", "g.y.list")).Dispatchers[0]
	},
	"query": func(t testing.TB) *Dispatcher {
		return mustNew(t, &Config{Autodispatch: true}).Arrange(registry(t, "db.query.explain", "db.query.run")).Dispatchers[0]
	},
}

// TestCalls reads the calls of testdata/calls.txtar. A file's name begins with its dispatcher; "# " begins a comment, a number before a
// call is the limit of help in bytes, and "-" is a call without arguments.
func TestCalls(t *testing.T) {
	t.Parallel()
	transcript.Each(t, "testdata/calls.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			which, _, _ := strings.Cut(section.Name, "/")
			d := dispatchers[which](t)
			return transcript.Lines(t, string(section.Data), func(call string) string { return describeCall(d, call) })
		})
	})
}

// describeCall returns how a call is read, or the answer of help.
func describeCall(d *Dispatcher, call string) string {
	limit := 1 << 20
	if n, rest, ok := strings.Cut(call, " {"); ok {
		if number, err := strconv.Atoi(n); err == nil {
			limit, call = number, "{"+rest
		}
	}
	r, faults := d.Read([]byte(strings.TrimPrefix(call, "-")))
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "%s at %q: %s\n", f.Code, f.At, f.Message)
	}
	if r == nil {
		return b.String()
	}
	if r.Entry != nil {
		fmt.Fprintf(&b, "%s %s", r.Entry.Spec().Name, r.Args)
	}
	if r.Fetch != nil {
		fmt.Fprintf(&b, "fetch %s", r.Fetch)
	}
	if r.Help != nil {
		answer, given := d.Help(r.Help, &HelpOptions{Limit: limit, Count: bytesAsTokens, Lite: r.Lite != nil && *r.Lite})
		fmt.Fprintf(&b, "help %s with %d signatures", answer, len(given))
	}
	if r.At != "" {
		fmt.Fprintf(&b, " at %s", r.At)
	}
	if len(r.Unused) > 0 {
		fmt.Fprintf(&b, " without %v", r.Unused)
	}
	for _, w := range r.Warnings {
		fmt.Fprintf(&b, " warned of %s", w.At)
	}
	if r.Lite != nil {
		fmt.Fprintf(&b, " lite %v", *r.Lite)
	}
	if r.Verify {
		b.WriteString(" verified")
	}
	if r.MaxTotalTokens != 0 {
		fmt.Fprintf(&b, " in %d tokens", r.MaxTotalTokens)
	}
	return b.String()
}

// TestBadCalls has calls that cannot be written in a transcript.
func TestBadCalls(t *testing.T) {
	t.Parallel()
	for call, at := range map[string]string{
		"{\"action\":\"\xff\"}": "/action",
		strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000): "",
	} {
		if r, faults := lab(t).Read([]byte(call)); r != nil || len(faults) != 1 || faults[0].Code != fault.BadJSON || faults[0].At != at {
			t.Errorf("%.80s: %v, want bad_json at %q", call, faults, at)
		}
	}
}

// checkRequest checks a request against the written rules for resource and action.
func checkRequest(t interface{ Fatalf(string, ...any) }, d *Dispatcher, call []byte, r *Request, faults []*fault.Error) {
	if (r == nil) != (len(faults) > 0) {
		t.Fatalf("%s: Read returns both a request and faults, or neither", call)
	}
	for _, f := range faults {
		if !slices.Contains(fault.Codes(), f.Code) || f.Message == "" || f.At != "" && f.At[0] != '/' {
			t.Fatalf("%s: fault %+v, want a code of the closed list, a message and a pointer", call, f)
		}
	}
	if r == nil {
		return
	}
	set := 0
	for _, present := range []bool{r.Help != nil, r.Fetch != nil, r.Entry != nil} {
		if present {
			set++
		}
	}
	if set != 1 {
		t.Fatalf("%s: want exactly one of help, fetch and entry: %+v", call, r)
	}
	if r.Fetch != nil && !json.Valid(r.Fetch) {
		t.Fatalf("%s: the fetch is not JSON: %s", call, r.Fetch)
	}
	if r.Entry == nil {
		return
	}
	if !gjson.ValidBytes(r.Args) || r.Args[0] != '{' {
		t.Fatalf("%s: the arguments are not an object: %s", call, r.Args)
	}
	var hint struct{ Resource, Action string }
	var raw map[string]json.RawMessage
	_ = json.Unmarshal(call, &raw)
	_ = json.Unmarshal(raw["resource"], &hint.Resource)
	_ = json.Unmarshal(raw["action"], &hint.Action)
	hint.Resource, hint.Action = strings.Trim(hint.Resource, " "), strings.Trim(hint.Action, " ")
	name := r.Entry.Spec().Name
	if !slices.Contains(d.Entries(), r.Entry) {
		t.Fatalf("%s calls %s, which is not in the dispatcher", call, name)
	}
	fold := func(path string) string {
		return strings.NewReplacer("_", "", "-", "", "/", "").Replace(strings.ToLower(path))
	}
	path := hint.Action
	if hint.Resource != "" {
		path = hint.Resource + "." + hint.Action
	}
	isSuffix := strings.HasSuffix("."+fold(name), "."+fold(path))
	isFoldedSuffix := hint.Resource == "" && strings.HasSuffix(steps.FoldName(name), steps.FoldName(path))
	repeatsResource := false // the action repeats the resource, and skips no part of the name between them
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 && hint.Resource != "" && strings.HasSuffix("."+fold(name), "."+fold(hint.Action)) {
		resource := hint.Action[:max(0, strings.LastIndexByte(hint.Action, '.'))]
		repeatsResource = resource != "" && (strings.HasSuffix("."+fold(name[:dot]), "."+fold(hint.Resource)) ||
			strings.Contains("."+fold(resource)+".", "."+fold(hint.Resource)+"."))
	}
	if !isSuffix && !isFoldedSuffix && !repeatsResource {
		t.Fatalf("%s calls %s, which no rule allows", call, name)
	}
}
