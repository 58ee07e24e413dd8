package chain_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// changing is a world of values that functions read, by name.
type changing struct {
	values map[string]string
	engine *chain.Engine
}

func changes(t testing.TB, o chain.Options) *changing {
	c := &changing{values: map[string]string{}}
	read := func(_ context.Context, args []byte) ([]byte, error) {
		value, ok := c.values[gjson.GetBytes(args, "name").Str]
		if !ok {
			return nil, fault.New(fault.FunctionFailed, "there is no such value")
		}
		return []byte(value), nil
	}
	input := schema(`"name":{"type":"string"},"more":{}`)
	function := func(name, heavy string, effect steps.Effect) steps.Function {
		return steps.Function{Spec: steps.Spec{Name: name, Effect: effect, EffectDeclared: true, Heavy: heavy, Input: input}, Call: read}
	}
	part := function("do.part", "", steps.Read)
	part.Spec.Answer = &steps.Excerpt{Keep: []string{"a"}}
	c.engine = engineOf(t, []steps.Function{part, function("do.read", "", steps.Read), function("do.heavy", "always", steps.Read),
		function("do.write", "", steps.Write)}, o, true)
	return c
}

// session returns a context of a new session.
func session(t testing.TB) context.Context { return steps.WithSession(t.Context(), &steps.Session{}) }

// ask runs a chain with these members and the step that reads a value, and returns the answer.
func (c *changing) ask(ctx context.Context, t testing.TB, name, members string, caller *chain.Caller) gjson.Result {
	t.Helper()
	return c.run(ctx, t, fmt.Sprintf(`{%s,"steps":[{"do.read":{"name":%q}}]}`, members, name), caller)
}

func (c *changing) run(ctx context.Context, t testing.TB, request string, caller *chain.Caller) gjson.Result {
	t.Helper()
	answer := c.engine.Run(ctx, []byte(request), caller)
	if !answer.OK {
		t.Fatalf("%s: %s", request, answer.JSON)
	}
	got := gjson.ParseBytes(answer.JSON)
	if n := got.Get("usage.tokens"); n.Exists() && int(n.Int()) != newCounter(t, 0).Count(answer.JSON, -1) {
		t.Errorf("usage.tokens is not what it costs: %s", got)
	}
	return got
}

const asked = `"ifChanged":true`

// manyLines is a text of many lines, the middle one of which is given.
func manyLines(n int, middle string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("line %d of the text", i)
	}
	list[n/2] = middle
	return strings.Join(list, `\n`)
}

// TestIfChangedInASession: a session's second request for the same read says only what has changed, and the token of each answer names what
// was read.
func TestIfChangedInASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, ctx, began := changes(t, chain.Options{}), session(t), time.Now()
		c.values["a"] = `"` + manyLines(100, "old") + `"`
		want := func(got, want gjson.Result, values ...string) {
			t.Helper()
			if values = append(values, want.Raw); !reflect.DeepEqual(got.Value(), gjson.Parse(strings.Join(values, "")).Value()) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		first := c.ask(ctx, t, "a", asked, nil)
		want(first.Get("result"), gjson.Parse(c.values["a"]))
		if first.Get("continuation_token").Exists() {
			t.Errorf("got %s, want no token: the session remembers it", first)
		}
		time.Sleep(time.Minute)
		second := c.ask(ctx, t, "a", asked+`,"lite":true`, nil)
		if !second.Get("unchanged").Bool() || second.Get("since").Str != began.UTC().Format(time.RFC3339) {
			t.Errorf("got %s, want that it is unchanged since %v", second, began.UTC())
		}
		c.values["a"] = `"` + manyLines(100, "new") + `"`
		third := c.ask(ctx, t, "a", asked, nil)
		if diff := third.Get("result.changed").Str; !strings.Contains(diff, "\n-old\n+new\n") || third.Get("usage.tokens").Int() > 160 {
			t.Errorf("got %s, want a short diff", third)
		}
		fourth := c.ask(ctx, t, "a", asked+`,"lite":true`, nil)
		if since := began.Add(time.Minute).UTC().Format(time.RFC3339); !fourth.Get("unchanged").Bool() || fourth.Get("since").Str != since {
			t.Errorf("got %s, want that it is unchanged since %v", fourth, since)
		}
		want(c.run(ctx, t, `{"lite":true,"mode":"full","continuation_token":"`+fourth.Get("continuation_token").Str+`"}`, nil),
			gjson.Parse(c.values["a"]))
		want(c.run(ctx, t, `{"lite":true,"mode":"full","continuation_token":"`+second.Get("continuation_token").Str+`"}`, nil),
			gjson.Parse(`"`+manyLines(100, "old")+`"`))
		want(c.ask(session(t), t, "a", asked, nil).Get("result"), gjson.Parse(c.values["a"])) // another session
	})
}

// TestIfChangedByToken: without a session, the first answer has a token beside the result, and each later one names what was read.
func TestIfChangedByToken(t *testing.T) {
	t.Parallel()
	c := changes(t, chain.Options{})
	one := `{"id":%d,"name":"one of many","tags":["a","b"],"size":12345678901234567890}`
	c.values["a"] = "[" + strings.Join([]string{fmt.Sprintf(one, 1), fmt.Sprintf(one, 2), fmt.Sprintf(one, 3)}, ",") + "]"
	first := c.ask(t.Context(), t, "a", asked, nil)
	token := first.Get("continuation_token").Str
	if first.Get("result").Raw != c.values["a"] || !strings.HasPrefix(token, "oc1_") {
		t.Fatalf("got %s, want the value and a token", first)
	}
	again := c.ask(t.Context(), t, "a", `"ifChanged":"`+token+`"`, nil)
	if !again.Get("result.unchanged").Bool() || again.Get("result.continuation_token").Str != token || again.Get("continuation_token").Exists() {
		t.Errorf("got %s, want that it is unchanged, and the same token", again)
	}
	c.values["a"] = strings.Replace(c.values["a"], "90}]", "91}]", 1)
	changed := c.ask(t.Context(), t, "a", `"ifChanged":"`+token+`"`, nil)
	if patch := `[{"op":"replace","path":"/2/size","value":12345678901234567891}]`; changed.Get("result.changed").Raw != patch {
		t.Errorf("got %s, want %s", changed, patch)
	}
	token = changed.Get("result.continuation_token").Str
	c.values["a"] = `{"other":"entirely"}`
	whole := c.ask(t.Context(), t, "a", `"ifChanged":"`+token+`"`, nil)
	if whole.Get("result").Raw != c.values["a"] || whole.Get("continuation_token").Str == token {
		t.Errorf("got %s, want the value, which is shorter than the change, and a new token", whole)
	}
	token = whole.Get("continuation_token").Str
	for name, caller := range map[string]*chain.Caller{"another caller": {ID: "other"}, "other rights": {Rights: budget.Rights{Scope: "x"}}} {
		if got := c.ask(t.Context(), t, "a", `"ifChanged":"`+token+`"`, caller); got.Get("result").Raw != c.values["a"] {
			t.Errorf("%s: got %s, want the value", name, got)
		}
	}
	if got := c.ask(t.Context(), t, "a", `"ifChanged":"oc1_unknown"`, nil); got.Get("result").Raw != c.values["a"] {
		t.Errorf("got %s, want the value: the token is not known", got)
	}
}

// TestIfChangedWarnsOfWhatIsNotWhole: a result that is answered in part, or as a probe because of its function, is compared with nothing, and
// one warning says so.
func TestIfChangedWarnsOfWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	c, ctx := changes(t, chain.Options{}), session(t)
	c.values["a"], c.values["parts"] = `"`+manyLines(300, "middle")+`"`, `{"a":1,"b":"`+manyLines(300, "middle")+`"}`
	for request, want := range map[string]string{
		`{"ifChanged":true,"steps":[{"do.heavy":{"name":"a"}}]}`:                    "probe",
		`{"ifChanged":true,"steps":[{"do.part":{"name":"parts"}}]}`:                 "verify: true",
		`{"ifChanged":true,"verify":true,"steps":[{"do.part":{"name":"parts"}}]}`:   "",
		`{"ifChanged":true,"steps":[{"do.read":{"name":"a"}}]}`:                     "",
		`{"ifChanged":true,"steps":[{"do.read":{"name":"a"}}],"return":["$0","x"]}`: "select",
	} {
		warnings := c.run(ctx, t, request, nil).Get(`warnings.#(at=="/ifChanged")#.message`).Array()
		if want == "" && len(warnings) > 0 || want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].Str, want)) {
			t.Errorf("%s warns %v, want %q", request, warnings, want)
		}
	}
}

// TestIfChangedNeedsAWholeResult: what an answer did not show whole is not what a later one is compared with.
func TestIfChangedNeedsAWholeResult(t *testing.T) {
	t.Parallel()
	long := `"` + manyLines(300, "middle") + `"`
	for name, request := range map[string]string{
		"a probe":        `{"ifChanged":true,"budget":{"maxTotalTokens":200},"steps":[{"do.read":{"name":"a"}}]}`,
		"a lite probe":   `{"ifChanged":true,"lite":true,"budget":{"maxTotalTokens":200},"steps":[{"do.read":{"name":"a"}}]}`,
		"a heavy read":   `{"ifChanged":true,"steps":[{"do.heavy":{"name":"a"}}]}`,
		"select":         `{"ifChanged":true,"steps":[{"do.read":{"name":"a"},"select":"$result"}]}`,
		"return":         `{"ifChanged":true,"steps":[{"do.read":{"name":"a"}}],"return":["$0"]}`,
		"a part":         `{"ifChanged":true,"steps":[{"do.part":{"name":"parts"}}]}`,
		"forEach":        `{"ifChanged":true,"steps":[{"do.read":{"name":"a"},"forEach":"[1]"}]}`,
		"orElse":         `{"ifChanged":true,"steps":[{"do.read":{"name":"none"},"orElse":"x"}]}`,
		"a write":        `{"ifChanged":true,"steps":[{"do.write":{"name":"a"}}]}`,
		"not asked":      `{"steps":[{"do.read":{"name":"a"}}]}`,
		"false":          `{"ifChanged":false,"steps":[{"do.read":{"name":"a"}}]}`,
		"null":           `{"ifChanged":null,"steps":[{"do.read":{"name":"a"}}]}`,
		"other args":     `{"ifChanged":true,"steps":[{"do.read":{"name":"a","more":1}}]}`,
		"another caller": `{"ifChanged":true,"steps":[{"do.read":{"name":"a"}}]}`,
	} {
		c, ctx := changes(t, chain.Options{}), session(t)
		c.values["a"], c.values["parts"] = long, `{"a":1,"b":`+long+`}`
		caller := &chain.Caller{}
		if name == "another caller" {
			caller.ID = "other"
		}
		shown := c.run(ctx, t, request, caller)
		again := c.run(ctx, t, request, caller)
		if again.Get("result.unchanged").Exists() != (name == "other args" || name == "another caller") || again.Get("unchanged").Exists() {
			t.Errorf("%s again: got %.300s", name, again.Raw)
		}
		if name == "orElse" {
			c.values["none"] = long
			if got := c.ask(ctx, t, "none", asked, nil); got.Get("result").Raw != long {
				t.Errorf("after %s: got %s, want the value", name, got)
			}
		}
		if got := c.ask(ctx, t, "a", asked, nil); got.Get("result").Raw != long {
			t.Errorf("after %s: got %s, want the value", name, got)
		}
		for _, path := range []string{"result.continuation_token", "continuation_token"} { // of the probe
			if token := shown.Get(path).Str; token != "" {
				if got := c.ask(t.Context(), t, "a", `"ifChanged":"`+token+`"`, nil); got.Get("result").Raw != long {
					t.Errorf("with the token of %s: got %s, want the value", name, got)
				}
			}
		}
	}
}

// TestIfChangedKnowsACall: a call is known by its function and its arguments, however they are written, and by what references give.
func TestIfChangedKnowsACall(t *testing.T) {
	t.Parallel()
	c, ctx := changes(t, chain.Options{Lite: true}), session(t)
	c.values["a"] = `"` + manyLines(100, "middle") + `"`
	for i, request := range []string{
		`{"ifChanged":true,"steps":[{"do.read":{"name":"a","more":{"x":1,"y":[2]}}}]}`,
		`{"ifChanged":true,"steps":[{"fn":"do.read","args":{"more":{"y":[2.0],"x":1},"name":"\u0061"}}]}`,
		`{"ifChanged":true,"steps":[{"expr":"['a', 2]"},{"do.read":{"name":"$0[0]","more":{"x":1,"y":["$0[1]"]}}}]}`,
		`{"ifChanged":true,"steps":[{"do.read":{"name":"a","more":{"x":1,"y":[2]}}},{"do.read":{"name":"a"}}],"return":"$0"}`,
		`{"ifChanged":true,"common":{"name":"a"},"input":{"x":1},"steps":[{"Read":{"more":{"x":"$input.x","y":[2]}}}]}`,
	} {
		if got := c.run(ctx, t, request, nil); got.Get("unchanged").Bool() != (i > 0) {
			t.Errorf("%s: got %s", request, got)
		}
	}
}

// TestIfChangedWithoutArguments: a call that has none is known, too.
func TestIfChangedWithoutArguments(t *testing.T) {
	t.Parallel()
	c, ctx := changes(t, chain.Options{Lite: true}), session(t)
	c.values[""] = `[1]`
	for i, step := range []string{`{"fn":"do.read"}`, `{"fn":"do.read","args":{}}`, `{"do.read":{}}`} {
		if got := c.run(ctx, t, `{"ifChanged":true,"steps":[`+step+`]}`, nil); got.Get("unchanged").Bool() != (i > 0) {
			t.Errorf("%s: got %s", step, got)
		}
	}
}

// TestIfChangedFitsTheBudget: whatever has changed, an answer is within its budget, and what it says is true.
func TestIfChangedFitsTheBudget(t *testing.T) {
	t.Parallel()
	c, counter := changes(t, chain.Options{}), newCounter(t, 0)
	kinds := map[string]int{}
	for limit := 150; limit < 500; limit += 7 {
		for _, lite := range []string{"false", "true"} {
			ctx := session(t)
			c.values["a"] = `"` + manyLines(70, "old") + `"`
			c.ask(ctx, t, "a", asked, nil)
			if limit%2 == 0 {
				c.values["a"] = `"` + strings.ReplaceAll(manyLines(70, "new"), "line 9", "changed") + `"`
			}
			answer := c.engine.Run(ctx, fmt.Appendf(nil, `{"ifChanged":true,"lite":%s,"trace":"full","budget":{"maxTotalTokens":%d},`+
				`"steps":[{"do.read":{"name":"a"},"timeoutMs":1000}],"input":{"unread":"by any step"}}`, lite, limit), nil)
			if n := counter.Count(answer.JSON, -1); !answer.OK || n > limit {
				t.Errorf("%d tokens of %d: %s", n, limit, answer.JSON)
			}
			result := gjson.ParseBytes(answer.JSON)
			if lite == "false" {
				result = result.Get("result")
			}
			switch {
			case result.Get("unchanged").Bool() && limit%2 == 1:
				kinds["unchanged"]++
			case strings.Contains(result.Get("changed").Str, "\n+new\n") && limit%2 == 0:
				kinds["changed"]++
			case result.Get("preview").Exists() && limit%2 == 0:
				kinds["probe"]++
			default:
				t.Errorf("limit %d: got %s", limit, answer.JSON)
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("got %v, want all kinds of answers", kinds)
	}
}

// TestIfChangedWithBlocks: a result with a block, whose handle is another one each time, is answered as it is.
func TestIfChangedWithBlocks(t *testing.T) {
	t.Parallel()
	e, ctx := (&camera{picture: []byte("fixed")}).engine(t, chain.Options{}), session(t)
	for range 2 {
		answer := e.Run(ctx, []byte(`{"ifChanged":true,"lite":true,"steps":[{"cam.shot":{}}]}`), nil)
		if !gjson.GetBytes(answer.JSON, "data").Exists() {
			t.Errorf("got %s, want the block", answer.JSON)
		}
	}
}

// TestIfChangedWithoutAStore: if results cannot be kept, the value is answered, and no token.
func TestIfChangedWithoutAStore(t *testing.T) {
	t.Parallel()
	const request = `{"ifChanged":true,"steps":[{"do.read":{"gives":[1,2,3]}}]}`
	for name, e := range map[string]*chain.Engine{"none": engineOf(t, writingFunctions(), chain.Options{}, false),
		"one that fails": withoutStore(t, chain.Options{}, fault.New(fault.Unavailable, "gone"))} {
		for ctx := session(t); ; ctx = t.Context() {
			answer := e.Run(ctx, []byte(request), nil)
			if got := gjson.ParseBytes(answer.JSON); got.Get("result").Raw != "[1,2,3]" || got.Get("continuation_token").Exists() ||
				got.Get("warnings").Exists() != (name == "none") {
				t.Errorf("%s: got %s", name, got)
			}
			if ctx == t.Context() {
				break
			}
		}
	}
}

// TestIfChangedMemoryIsBounded: a session remembers the last 256 results, and a result is kept again before it expires.
func TestIfChangedMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, ctx := changes(t, chain.Options{Lite: true}), session(t)
		value := `"` + manyLines(30, "middle") + `"`
		for i := range 257 {
			c.values[fmt.Sprint(i)] = value
			c.ask(ctx, t, fmt.Sprint(i), asked, nil)
		}
		for _, name := range []string{"256", "1", "0"} {
			if got := c.ask(ctx, t, name, asked, nil); got.Get("unchanged").Bool() != (name != "0") {
				t.Errorf("%s: got %s", name, got)
			}
		}
		tokens := map[string]bool{}
		for range 30 {
			time.Sleep(4 * time.Minute)
			got := c.ask(ctx, t, "256", asked, nil)
			tokens[got.Get("continuation_token").Str] = true
			if !got.Get("unchanged").Bool() {
				t.Fatalf("got %s", got)
			}
		}
		if len(tokens) != 3 {
			t.Errorf("two hours of requests have %d tokens, want 3, since none lives longer than an hour", len(tokens))
		}
		time.Sleep(6 * time.Minute)
		if got := c.ask(ctx, t, "256", asked, nil); got.Raw != value {
			t.Errorf("got %s, want the value: what was shown has expired", got)
		}
	})
}
