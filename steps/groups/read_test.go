package groups

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// lab is a dispatcher over functions that declare awkward names.
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

func TestCalls(t *testing.T) {
	t.Parallel()
	d := lab(t)
	for _, test := range []struct{ call, fn, args, at string }{
		{`{"resource":"device","action":"list","params":{"site":"a"}}`, "net.device.list", `{"site":"a"}`, "/params"},
		{`{"resource":"device","action":"list"}`, "net.device.list", `{}`, ""},
		{`{"resource":"device","action":"list","params":{}}`, "net.device.list", `{}`, "/params"},
		{`{"resource":"device","action":"list","params":null,"site":1.10}`, "net.device.list", `{"site":1.10}`, ""},
		{`{"action":"get","id":12345678901234567890}`, "net.device.get", `{"id":12345678901234567890}`, ""},
		{`{ "action" : "get" , "id" : [ 1 , "a b" ] }`, "net.device.get", `{"id":[1,"a b"]}`, ""},
		{`{"action":"readGraph","\u0061\u006e":"\u0061"}`, "net.rack.read_graph", `{"\u0061\u006e":"\u0061"}`, ""},
		{`{"resource":"deviceType","action":"LIST"}`, "net.device_type.list", `{}`, ""},
		{`{"resource":"device-type","action":"list"}`, "net.device_type.list", `{}`, ""},
		{`{"action":"device.list"}`, "net.device.list", `{}`, ""},
		{`{"action":"net.device.list"}`, "net.device.list", `{}`, ""},
		{`{"resource":"net.device","action":"list"}`, "net.device.list", `{}`, ""},
		{`{"resource":"device","action":"interface.list"}`, "net.device.interface.list", `{}`, ""},
		{`{"resource":"interface","action":"list"}`, "net.device.interface.list", `{}`, ""},
		{`{"action":"deviceTypeList"}`, "net.device_type.list", `{}`, ""},
		{`{"resource":"","action":" get "}`, "net.device.get", `{}`, ""},
		// The functions that declare fields of a call themselves.
		{`{"resource":"rule","action":"show","params":{"resource":"x","action":"device.get"}}`, "net.rule.show",
			`{"resource":"x","action":"device.get"}`, "/params"},
		{`{"resource":"rule","action":"show"}`, "net.rule.show", `{}`, ""},
		{`{"action":"apply","params":{"action":"device.get","params":{"a":1}}}`, "net.rule.apply", `{"action":"device.get","params":{"a":1}}`,
			"/params"},
		{`{"action":"probe","host":"a"}`, "net.tls.probe", `{"host":"a"}`, ""},
		{`{"action":"probe","params":{"verify":true,"lite":"x"},"lite":true}`, "net.tls.probe", `{"verify":true,"lite":"x"}`, "/params"},
		{`{"action":"spend","budget":5,"id":1}`, "net.ad.spend", `{"budget":5,"id":1}`, ""},
		{`{"action":"print","schema":"x"}`, "net.ad.print", `{"schema":"x"}`, ""},
		{`{"resource":"tls","action":"tls.help","params":{"id":1}}`, "net.tls.help", `{"id":1}`, "/params"},
		{`{"resource":"device","action":"device.list"}`, "net.device.list", `{}`, ""},
		{`{"resource":"net.device","action":"net.device.list"}`, "net.device.list", `{}`, ""},
		{`{"action":"tls.help","id":1}`, "net.tls.help", `{"id":1}`, ""},
		// Fields of a fetch without a token of onecall are arguments.
		{`{"resource":"device","action":"list","page":2,"query":"x"}`, "net.device.list", `{"page":2,"query":"x"}`, ""},
		{`{"action":"read_graph","continuation_token":"abc","mode":"full"}`, "net.rack.read_graph",
			`{"continuation_token":"abc","mode":"full"}`, ""},
		{`{"action":"read_graph","params":{"continuation_token":"abc"}}`, "net.rack.read_graph", `{"continuation_token":"abc"}`, "/params"},
		{`{"action":"read_graph","deep":{"continuation_token":"oc1_1"}}`, "net.rack.read_graph", `{"deep":{"continuation_token":"oc1_1"}}`, ""},
		// Hoisted names are given to functions that declare them, and the function's own arguments win.
		{`{"action":"get","id":1,"repoId":"r"}`, "net.device.get", `{"id":1,"repoId":"r"}`, ""},
		{`{"action":"get","params":{"id":1},"repoId":"r"}`, "net.device.get", `{"id":1,"repoId":"r"}`, "/params"},
		{`{"action":"get","params":{"repoId":"own"},"repoId":"r"}`, "net.device.get", `{"repoId":"own"}`, "/params"},
		{`{"action":"update","params":{"repo_id":"own"},"repoId":"r"}`, "net.device.update", `{"repo_id":"own"}`, "/params"},
		{`{"action":"probe","repoId":"r"}`, "net.tls.probe", `{}`, ""},
		{`{"action":"get","repoId":null}`, "net.device.get", `{}`, ""},
	} {
		r, faults := d.Read([]byte(test.call))
		if len(faults) > 0 {
			t.Errorf("%s: %v", test.call, faults)
			continue
		}
		if r.Entry == nil || r.Entry.Spec().Name != test.fn || string(r.Args) != test.args || r.At != test.at || r.Help != nil || r.Fetch != nil {
			t.Errorf("%s: got %+v %s", test.call, r, r.Args)
		}
	}
}

func TestFieldsOfACall(t *testing.T) {
	t.Parallel()
	d := lab(t)
	_, faults := d.Read([]byte(`{"action":"get","lite":false,"verify":true,"budget":{"maxTotalTokens":500,"x":null},"id":1}`))
	if len(faults) != 1 || faults[0].Code != fault.UnknownField || faults[0].At != "/budget/x" {
		t.Errorf("%v", faults)
	}
	r, faults := d.Read([]byte(`{"action":"get","lite":false,"verify":true,"budget":{"maxTotalTokens":500},"params":{"id":1}}`))
	if len(faults) > 0 || r.Lite == nil || *r.Lite || !r.Verify || r.MaxTotalTokens != 500 || string(r.Args) != `{"id":1}` {
		t.Errorf("%+v %v", r, faults)
	}
	r, faults = d.Read([]byte(`{"action":"get","lite":null,"verify":null,"budget":null,"resource":null}`))
	if len(faults) > 0 || r.Lite != nil || r.Verify || r.MaxTotalTokens != 0 || string(r.Args) != `{}` {
		t.Errorf("%+v %v", r, faults)
	}
}

// TestUnusedHoistedNames: a hoisted name acts as a common argument. What the function does not declare is not given to it, not
// even where it takes any argument, and is told of.
func TestUnusedHoistedNames(t *testing.T) {
	t.Parallel()
	view := registryOf(t, spec("s.free", ""), spec("s.card", `{"type":"object","properties":{"repo_id":{}},"additionalProperties":false}`))
	d := mustNew(t, &Config{Groups: []Group{{Name: "g", Resources: []string{"s"}}},
		Hoist: []string{"repoId", "org"}}).Arrange(view).Dispatchers[0]
	for _, test := range []struct{ call, args, unused string }{
		{`{"action":"free","repoId":"r","y":1}`, `{"y":1}`, "repoId"},
		{`{"action":"free","org":1,"params":{"y":1},"repoId":"r"}`, `{"y":1}`, "org repoId"},
		{`{"action":"free","params":{"repoId":"r"}}`, `{"repoId":"r"}`, ""},
		{`{"action":"free","repoId":null}`, `{}`, ""},
		{`{"action":"card","repoId":"r","org":1}`, `{"repoId":"r"}`, "org"},
		{`{"action":"card","repoId":"r","repo_id":"own"}`, `{"repo_id":"own"}`, ""}, // the function's own wins
	} {
		r, faults := d.Read([]byte(test.call))
		if len(faults) > 0 || string(r.Args) != test.args || strings.Join(r.Unused, " ") != test.unused {
			t.Errorf("%s: got %+v %v", test.call, r, faults)
		}
	}
}

func TestCallFaults(t *testing.T) {
	t.Parallel()
	d := lab(t)
	for _, test := range []struct {
		call string
		want string // code and place of each fault
		says string
	}{
		{`{"action":"get","params":{"id":1},"id":2,"x":3}`, "bad_request /id", `"id", "x" beside params`},
		{`{"action":"get","params":{"id":1},"page":2}`, "bad_request /page", "continuation_token"},
		{`{"action":"get","params":[1]}`, "bad_request /params", "not an array"},
		{`{"action":"get","params":"{}"}`, "bad_request /params", "not a string"},
		{`{"action":"get","lite":"false"}`, "bad_request /lite", "true or false"},
		{`{"action":"lst","lite":"x","verify":1,"params":2}`,
			"bad_request /lite; bad_request /verify; bad_request /params; unknown_function /action", ""},
		{`{"action":5}`, "bad_request /action", "the number 5"},
		{`{"action":5,"id":1}`, "bad_request /action", ""},
		{`{"action":{"x":1},"resource":[]}`, "bad_request /action; bad_request /resource", ""},
		{`{"action":"list"}`, "unknown_function /action", "device, device.interface, device_type, rack: say which"},
		{`{"resource":"devise","action":"list"}`, "unknown_function /resource", "did you mean device"},
		{`{"resource":"device","action":"lst"}`, "unknown_function /action", `"device" has no action "lst": did you mean list`},
		{`{"action":"gte"}`, "unknown_function /action", `{"action":"help"} lists all`},
		{`{"resource":"type","action":"list"}`, "unknown_function /resource", ""},
		{`{"resource":"rack","action":"device.list"}`, "unknown_function /action", ""},
		{`{"action":"read_graph","schema":true}`, "bad_request /schema", `"schema" is a field of help`},
		{`{"action":"read_graph","id":1,"again":false,"schema":true}`, "bad_request /again; bad_request /schema", "in params"},
		{`{"action":"read_graph","params":{},"again":true}`, "bad_request /again", "beside params"},
		{`{"resource":"pod","action":"show"}`, "unknown_function /resource", "show declares resource itself"},
		{`{"resource":"rule","action":"show","id":1}`, "bad_request ", "declares an argument resource itself"},
		{`{"action":"probe","verify":true}`, "bad_request ", "declares an argument verify itself"},
		{`{"action":"probe","lite":true}`, "bad_request ", "declares an argument lite itself"},
		{`{"action":"get","budget":7}`, "bad_request /budget", ""},
		{`{"action":"get","budget":{"maxTotalTokens":0}}`, "bad_request /budget/maxTotalTokens", ""},
		{`{"action":"get","budget":{"maxTotalTokens":1e300}}`, "bad_request /budget/maxTotalTokens", ""},
		{`{"resource":"device","site":"a"}`, "bad_request ", `action is missing: "device" has`},
		{`{"params":{"id":1}}`, "bad_request ", "action is missing"},
		{`{"resource":"devise","site":"a"}`, "unknown_function /resource", "device"},
		{`{"action":"get","action":"list"}`, "bad_json /action", "once"},
		{`{"action":"get","params":{"a":1,"\u0061":2}}`, "bad_json /params/a", "once"},
		{`{"action":"get"`, "bad_json ", ""},
		{`{"action":"get"} {}`, "bad_json ", ""},
		{`[{"action":"get"}]`, "bad_request ", "not an array"},
		{"{\"action\":\"\xff\"}", "bad_json /action", ""},
		{strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000), "bad_json ", "depth"},
	} {
		r, faults := d.Read([]byte(test.call))
		var got, says []string
		for _, f := range faults {
			got = append(got, string(f.Code)+" "+f.At)
			says = append(says, f.Message)
		}
		if shown := test.call[:min(len(test.call), 80)]; strings.Join(got, "; ") != test.want {
			t.Errorf("%s: got %.300q", shown, got)
		} else if !strings.Contains(strings.Join(says, "\n"), test.says) || r != nil {
			t.Errorf("%s: says %q", shown, says)
		}
	}
}

func TestFetches(t *testing.T) {
	t.Parallel()
	d := lab(t)
	for _, test := range []struct{ call, want string }{
		{`{"continuation_token":"oc1_7","mode":"full"}`, `{"continuation_token":"oc1_7","mode":"full"}`},
		{`{"resource":"device","action":"update","continuation_token":"oc1_7","page":2,"lite":true}`,
			`{"continuation_token":"oc1_7","page":2,"lite":true}`},
		{`{"action":"update","params":{"continuation_token":"oc1_7","mode":"paginated"}}`,
			`{"params":{"continuation_token":"oc1_7","mode":"paginated"}}`},
		{`{"action":"update","params":{"continuation_token":"oc1_7"},"mode":"full"}`, `{"params":{"continuation_token":"oc1_7","mode":"full"}}`},
		{`{"action":"update","params":{},"continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		// What was called before may be sent again: it counts for nothing.
		{`{"action":"update","params":{"name":"x"},"continuation_token":"oc1_7","mode":"full"}`, `{"continuation_token":"oc1_7","mode":"full"}`},
		{`{"action":"update","name":"x","verify":true,"continuation_token":"oc1_7","mode":"full"}`,
			`{"continuation_token":"oc1_7","mode":"full"}`},
		{`{"action":"update","params":{"name":"x","continuation_token":"oc1_7"},"verify":true,"other":1}`,
			`{"params":{"continuation_token":"oc1_7"}}`},
		{`{"action":"list","params":{"page":1,"query":"x"},"continuation_token":"oc1_7","page":2}`, `{"continuation_token":"oc1_7","page":2}`},
		{`{"action":"list","params":{"page":1,"continuation_token":"oc1_7"},"page":2}`, `{"params":{"continuation_token":"oc1_7","page":2}}`},
		{`{"action":"update","params":{"continuation_token":"oc1_7","mode":"full"},"mode":null}`,
			`{"params":{"continuation_token":"oc1_7","mode":"full"}}`},
		{`{"action":"update","params":{"continuation_token":"oc1_6"},"continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		{`{"action":"update","params":{"continuation_token":"oc1_7"},"continuation_token":"abc"}`, `{"params":{"continuation_token":"oc1_7"}}`},
		{`{"action":5,"resource":[],"params":"x","verify":1,"continuation_token":"oc1_7","lite":2}`, `{"continuation_token":"oc1_7","lite":2}`},
		{`{"resource":"device","page_siez":5,"continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		// Where nothing is named that was called, there is nothing to be sent again.
		{`{"continuation_token":"oc1_7","page_siez":5}`, `{"continuation_token":"oc1_7","page_siez":5}`},
		{`{"params":{"continuation_token":"oc1_7","page_siez":5}}`, `{"params":{"continuation_token":"oc1_7","page_siez":5}}`},
		{`{"action":"no.such","continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		{`{"action":"help","continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		{`{"repoId":"r","continuation_token":"oc1_7"}`, `{"continuation_token":"oc1_7"}`},
		// However they are written, and whatever is beside them, nothing is called.
		{`{"action":"update","continuation_t\u006fken":"\u006fc1_7"}`, `{"continuation_token":"\u006fc1_7"}`},
		{`{"action":"update","name":"x","continuation_token":"oc1_"}`, `{"continuation_token":"oc1_"}`},
		{`{"action":"update","params":{"name":"x","continuation_token":"oc1_7"}}`, `{"params":{"continuation_token":"oc1_7"}}`},
		// Beside steps a token is refused by who answers fetches.
		{`{"steps":[],"continuation_token":"oc1_7"}`, `{"steps":[],"continuation_token":"oc1_7"}`},
		{`{"action":"update","steps":[],"continuation_token":"oc1_7"}`, `{"steps":[],"continuation_token":"oc1_7"}`},
	} {
		r, faults := d.Read([]byte(test.call))
		if len(faults) > 0 || string(r.Fetch) != test.want || r.Entry != nil || r.Help != nil {
			t.Errorf("%s: got %+v %v", test.call, r, faults)
		}
	}
}

// checkRequest holds a request against what resource and action may mean by the text of the rules.
func checkRequest(t interface{ Fatalf(string, ...any) }, d *Dispatcher, call []byte, r *Request, faults []*fault.Error) {
	if (r == nil) != (len(faults) > 0) {
		t.Fatalf("%s: a request and faults", call)
	}
	for _, f := range faults {
		if !slices.Contains(fault.Codes(), f.Code) || f.Message == "" || f.At != "" && f.At[0] != '/' {
			t.Fatalf("%s: %+v", call, f)
		}
	}
	if r == nil {
		return
	}
	set := 0
	for _, is := range []bool{r.Help != nil, r.Fetch != nil, r.Entry != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		t.Fatalf("%s: %+v", call, r)
	}
	if r.Fetch != nil && !json.Valid(r.Fetch) {
		t.Fatalf("%s: the fetch is %s", call, r.Fetch)
	}
	if r.Entry == nil {
		return
	}
	if !gjson.ValidBytes(r.Args) || r.Args[0] != '{' {
		t.Fatalf("%s: the arguments are %s", call, r.Args)
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
	end := strings.HasSuffix("."+fold(name), "."+fold(path))
	run := hint.Resource == "" && strings.HasSuffix(steps.FoldName(name), steps.FoldName(path))
	twice := false // the action repeats the resource, and no part of the name between them is left out
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 && hint.Resource != "" && strings.HasSuffix("."+fold(name), "."+fold(hint.Action)) {
		resource := hint.Action[:max(0, strings.LastIndexByte(hint.Action, '.'))]
		twice = resource != "" && (strings.HasSuffix("."+fold(name[:dot]), "."+fold(hint.Resource)) ||
			strings.Contains("."+fold(resource)+".", "."+fold(hint.Resource)+"."))
	}
	if !end && !run && !twice {
		t.Fatalf("%s calls %s", call, name)
	}
}
