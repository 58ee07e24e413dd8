package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// answering is a function that answers the JSON text that it is given as `answer`.
func answering(spec steps.Spec) steps.Function {
	return steps.Function{Spec: spec, Call: func(_ context.Context, args []byte) ([]byte, error) {
		return []byte(gjson.GetBytes(args, "answer").Str), nil
	}}
}

// writingFunctions has functions of each effect, declared and not, that answer what their arguments say.
func writingFunctions() []steps.Function {
	return []steps.Function{
		answering(steps.Spec{Name: "do.write", EffectDeclared: true}),
		answering(steps.Spec{Name: "do.destroy", Effect: steps.Destroy, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.edit", Effect: steps.Destroy, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.revoke", Effect: steps.Destroy, EffectDeclared: true, Deletes: true}),
		answering(steps.Spec{Name: "do.read", Effect: steps.Read, EffectDeclared: true}),
		answering(steps.Spec{Name: "do.unknown"}),
		answering(steps.Spec{Name: "do.heavy", Effect: steps.Read, EffectDeclared: true, Heavy: "always"}),
		answering(steps.Spec{Name: "do.heavyWrite", EffectDeclared: true, Heavy: "always"}),
		answering(steps.Spec{Name: "do.light", Effect: steps.Read, EffectDeclared: true, Heavy: "never"}),
		answering(steps.Spec{Name: "do.lightWrite", EffectDeclared: true, Heavy: "never"}),
	}
}

// objects is an array of n objects of a usual size.
func objects(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"id":%d,"url":"https://netbox.example/api/dcim/devices/%d/","name":"rack-%02d-switch","status":{"value":"active","label":"Active"},"tags":["core","edge"],"description":"The switch of rack %d, ordered by the network team."}`, 1000+i, 1000+i, i, i)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// wide is an object of more than 100 tokens.
func wide(head string) string {
	return `{` + head + `,"comments":"` + strings.Repeat("a word and another, ", 60) + `"}`
}

func stepOf(fn, answer, extra string) string {
	text, _ := json.Marshal(answer)
	return fmt.Sprintf(`{"fn":%q,"args":{"answer":%s}%s}`, fn, text, extra)
}

// TestLeanForms holds which result of a write is answered in its lean form, and what that says.
func TestLeanForms(t *testing.T) {
	t.Parallel()
	const whole = "" // no lean form
	published := compileSchema(t, chain.AnswerSchema(), "#/$defs/lean")
	http := func(status int, body string) string {
		return fmt.Sprintf(`{"status":%d,"headers":{"content-type":"application/json"},"body":%s}`, status, body)
	}
	for name, test := range map[string]struct {
		step, answer, extra string // the last step
		chain               string // further members of the chain
		want                string // the lean form without data_size and the token
	}{
		"one object":                     {"do.write", wide(`"name":"a","id":7,"url":"/x/7"`), "", "", `{"id":7,"url":"/x/7","name":"a"}`},
		"what is there of it":            {"do.write", wide(`"id":"é\"x"`), "", "", `{"id":"é\"x"}`},
		"numbers keep their spelling":    {"do.write", wide(`"id":12345678901234567890`), "", "", `{"id":12345678901234567890}`},
		"no identity":                    {"do.write", wide(`"id":null,"url":{"href":"x"}`), "", "", whole},
		"a long name is left out":        {"do.write", wide(`"id":1,"name":"` + strings.Repeat("n", 300) + `"`), "", "", `{"id":1}`},
		"dear names give way to the id":  {"do.write", wide(`"id":1,"url":"` + strings.Repeat("𓀀", 45) + `","name":"` + strings.Repeat("𓀀", 45) + `"`), "", "", `{"id":1}`},
		"an id with a list":              {"do.write", wide(`"id":1,"interfaces":[{"id":2},{"id":3}]`), "", "", `{"id":1}`},
		"many":                           {"do.write", objects(60), "", "", `{"accepted":60}`},
		"many in an object":              {"do.write", `{"count":60,"results":` + objects(60) + `}`, "", "", `{"accepted":60}`},
		"two lists are no many":          {"do.write", `{"results":` + objects(9) + `,"failed":[]}`, "", "", whole},
		"a list of texts is no many":     {"do.write", wide(`"items":["a","b"]`), "", "", whole},
		"an HTTP answer of one":          {"do.write", http(201, wide(`"id":7,"name":"a"`)), "", "", `{"id":7,"name":"a","status_code":201}`},
		"an HTTP answer of many":         {"do.write", http(202, objects(3)), "", "", `{"accepted":3,"status_code":202}`},
		"four members are no HTTP":       {"do.write", strings.Replace(http(201, wide(`"id":7`)), `{`, `{"id":1,`, 1), "", "", `{"id":1}`},
		"a deletion":                     {"do.destroy", wide(`"name":"a","id":7`), "", "", `{"deleted":true,"id":7}`},
		"an HTTP deletion":               {"do.destroy", http(200, wide(`"id":7`)), "", "", `{"deleted":true,"status_code":200,"id":7}`},
		"each of a forEach":              {"do.write", wide(`"id":7`), `,"forEach":"1..3"`, "", `{"accepted":3}`},
		"repeated":                       {"do.write", wide(`"id":7`), `,"repeat":{"until":"true","max":2}`, "", `{"id":7}`},
		"verify":                         {"do.write", wide(`"id":7`), "", `"verify":true,`, whole},
		"verify false":                   {"do.write", wide(`"id":7`), "", `"verify":false,`, `{"id":7}`},
		"a return":                       {"do.write", wide(`"id":7`), "", `"return":"$0",`, whole},
		"a select":                       {"do.write", wide(`"id":7`), `,"select":"$result"`, "", whole},
		"a stand-in":                     {"do.write", `]`, `,"orElse":` + wide(`"id":7`), "", whole},
		"small":                          {"do.write", `{"id":7,"name":"a"}`, "", "", whole},
		"a read":                         {"do.read", wide(`"id":7`), "", "", whole},
		"a function of unknown effect":   {"do.unknown", wide(`"id":7`), "", "", whole},
		"the write is not the last step": {"do.read", wide(`"id":7`), "", "", whole},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOf(t, writingFunctions(), chain.Options{}, true)
			before := ""
			if strings.HasPrefix(name, "the write is not") {
				before = stepOf("do.write", "1", "") + ","
			}
			for _, lite := range []bool{true, false} {
				request := fmt.Sprintf(`{%s"lite":%t,"steps":[%s%s]}`, test.chain, lite, before, stepOf(test.step, test.answer, test.extra))
				answer := e.Run(context.Background(), []byte(request), nil)
				got := gjson.ParseBytes(answer.JSON)
				if !lite {
					got = got.Get("result")
				}
				token := got.Get("continuation_token").Str
				if !answer.OK || (token != "") != (test.want != whole) {
					t.Fatalf("lite %t: %.300s", lite, answer.JSON)
				}
				if test.want == whole {
					continue
				}
				validate(t, published, []byte(got.Raw))
				var fields []string
				got.ForEach(func(key, value gjson.Result) bool {
					if key.Str != "continuation_token" && key.Str != "data_size" {
						fields = append(fields, key.Raw+":"+value.Raw)
					}
					return true
				})
				if lean := "{" + strings.Join(fields, ",") + "}"; lean != test.want {
					t.Errorf("lite %t: %s, want %s", lite, lean, test.want)
				}
				fetched := e.Run(context.Background(), fmt.Appendf(nil, `{"lite":true,"mode":"full","continuation_token":%q}`, token), nil)
				want := test.answer
				if strings.Contains(test.extra, "forEach") {
					want = "[" + want + "," + want + "," + want + "]"
				}
				if string(fetched.JSON) != want {
					t.Errorf("the token fetches %.100s", fetched.JSON)
				}
				if size := got.Get("data_size"); size.Exists() && size.Int() != int64(len(want)) {
					t.Errorf("data_size is %s of %d", size.Raw, len(want))
				}
			}
		})
	}
}

// TestLeanStatus: the HTTP status that a write's function tells stands in its lean form, and none that another told.
func TestLeanStatus(t *testing.T) {
	t.Parallel()
	loud := answering(steps.Spec{Name: "web.create", EffectDeclared: true})
	call := loud.Call
	loud.Call = func(ctx context.Context, args []byte) ([]byte, error) {
		if report := steps.CallbacksOf(ctx).Status; report != nil {
			report(201)
		}
		return call(ctx, args)
	}
	e := engineOf(t, append(writingFunctions(), loud), chain.Options{}, true)
	long, _ := json.Marshal(`{"id":7,"note":"` + strings.Repeat("a long note ", 100) + `"}`)
	for request, want := range map[string]string{
		`{"lite":true,"steps":[{"fn":"web.create","args":{"answer":%s}}]}`:                                                               "201",
		`{"lite":true,"steps":[{"fn":"web.create","args":{"answer":"1"}},{"fn":"do.write","args":{"answer":%s}}]}`:                       "",
		`{"lite":true,"steps":[{"chain":{"steps":[{"fn":"web.create","args":{"answer":"1"}}]}},{"fn":"do.write","args":{"answer":%s}}]}`: "",
	} {
		answer := e.Run(t.Context(), fmt.Appendf(nil, request, long), nil)
		if got := gjson.GetBytes(answer.JSON, "status_code").Raw; !answer.OK || got != want || gjson.GetBytes(answer.JSON, "id").Raw != "7" {
			t.Errorf("%s: %s", request, answer.JSON)
		}
	}
}

// TestLeanSize: a write of 60 objects is answered in at most 48 tokens, where the whole answer costs a hundred times that; the
// least budget has room for the dearest lean form.
func TestLeanSize(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	e := engineOf(t, writingFunctions(), chain.Options{Lite: true}, true)
	for _, made := range []string{objects(60), `{"status":201,"headers":{},"body":` + objects(60) + `}`} {
		answer := e.Run(context.Background(), []byte(`{"steps":[`+stepOf("do.write", made, "")+`]}`), nil)
		cost := counter.Count(answer.JSON, -1)
		t.Logf("%d tokens of %d: %s", cost, counter.Count([]byte(made), -1), answer.JSON)
		if cost > 48 || gjson.GetBytes(answer.JSON, "accepted").Int() != 60 {
			t.Errorf("%d tokens: %s", cost, answer.JSON)
		}
	}
	answer := e.Run(context.Background(), []byte(`{"lite":false,"budget":{"maxTotalTokens":150},"steps":[`+stepOf("do.write",
		wide(`"id":1,"name":"`+strings.Repeat("é𓀀", 30)+`"`), "")+`]}`), nil)
	if cost := counter.Count(answer.JSON, -1); !answer.OK || cost > 150 || gjson.GetBytes(answer.JSON, "result.id").Int() != 1 {
		t.Errorf("%d tokens: %s", cost, answer.JSON)
	}
}

// TestLeanBounds: where the lean form begins, that it can be off, and that nothing is lost without a store.
func TestLeanBounds(t *testing.T) {
	t.Parallel()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	made := wide(`"id":7`)
	size := counter.Count([]byte(made), -1)
	run := func(o chain.Options, keeps bool) bool {
		o.Lite = true
		answer := engineOf(t, writingFunctions(), o, keeps).Run(context.Background(), []byte(`{"steps":[`+stepOf("do.write", made, "")+`]}`), nil)
		return answer.OK && string(answer.JSON) == made
	}
	for name, test := range map[string]struct {
		above int
		keeps bool
		whole bool
	}{
		"default": {0, true, false}, "at the bound": {size, true, true}, "above it": {size - 1, true, false},
		"off": {-1, true, true}, "without a store": {0, false, true},
	} {
		if run(chain.Options{LeanAbove: test.above}, test.keeps) != test.whole {
			t.Errorf("%s: whole is not %t", name, test.whole)
		}
	}
	registry := registryOf(t, &world{})
	_, err = chain.New(&chain.Options{Functions: registry, LeanAbove: -2})
	if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest {
		t.Errorf("LeanAbove -2: %v", err)
	}
}

// TestLeanInAChain: references see the whole of what a write answered, and a failure elsewhere does not make a write long.
func TestLeanInAChain(t *testing.T) {
	t.Parallel()
	e := engineOf(t, writingFunctions(), chain.Options{}, true)
	answer := e.Run(context.Background(), []byte(`{"lite":true,"steps":[`+stepOf("do.write", objects(60), "")+`],"return":"$0[59].id"}`), nil)
	if string(answer.JSON) != "1059" {
		t.Errorf("a reference: %s", answer.JSON)
	}
	answer = e.Run(context.Background(), []byte(`{"steps":[`+stepOf("do.write", objects(60), "")+`,`+stepOf("do.write", objects(60),
		`,"when":"len($0) == 60 && $0[0].tags[0] == 'core'"`)+`]}`), nil)
	if !answer.OK || gjson.GetBytes(answer.JSON, "result.accepted").Int() != 60 || gjson.GetBytes(answer.JSON, "steps.1.tokens").Int() < 1000 {
		t.Errorf("a condition: %.500s", answer.JSON)
	}
	answer = e.Run(context.Background(), []byte(`{"onError":"continue","steps":[`+stepOf("do.read", "]", "")+`,`+stepOf("do.write",
		objects(60), "")+`]}`), nil)
	if answer.OK || gjson.GetBytes(answer.JSON, "result.accepted").Int() != 60 {
		t.Errorf("beside a failure: %.500s", answer.JSON)
	}
	// A forEach of which some failed is told whole.
	answer = e.Run(context.Background(), []byte(`{"onError":"continue","steps":[{"fn":"do.write","forEach":"[']', '`+strings.ReplaceAll(wide(`"id":1`), `"`, `\"`)+`']","args":{"answer":"$item"}}]}`), nil)
	if answer.OK || gjson.GetBytes(answer.JSON, "result.1.id").Int() != 1 {
		t.Errorf("a forEach that failed: %.500s", answer.JSON)
	}
}

// TestHeavy holds what a function says of its results against Options.ProbeAbove, for chains and for calls.
func TestHeavy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fn, answer string
		o          chain.Options
		probe      bool
	}{
		"always, small":           {"do.heavy", "1", chain.Options{}, true},
		"always, a small write":   {"do.heavyWrite", `{"id":1}`, chain.Options{}, true},
		"always, a long write":    {"do.heavyWrite", wide(`"id":1`), chain.Options{}, true},
		"never, a long write":     {"do.lightWrite", wide(`"id":1`), chain.Options{ProbeAbove: 50}, false},
		"never, a write too long": {"do.lightWrite", objects(60), chain.Options{MaxTotalTokens: 500}, true},
		"auto, small":             {"do.read", wide(`"id":1`), chain.Options{}, false},
		"auto, above probeAbove":  {"do.read", wide(`"id":1`), chain.Options{ProbeAbove: 50}, true},
		"never, above probeAbove": {"do.light", wide(`"id":1`), chain.Options{ProbeAbove: 50}, false},
		"never, beyond the room":  {"do.light", objects(60), chain.Options{MaxTotalTokens: 500}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := engineOf(t, writingFunctions(), test.o, true)
			args, _ := json.Marshal(map[string]string{"answer": test.answer})
			for _, lite := range []bool{false, true} {
				for entry, answer := range map[string]*chain.Answer{
					"run":  e.Run(context.Background(), fmt.Appendf(nil, `{"lite":%t,"steps":[%s]}`, lite, stepOf(test.fn, test.answer, "")), nil),
					"call": e.Call(context.Background(), &chain.Call{Function: test.fn, Args: args, Lite: &lite}, nil),
				} {
					isProbe, stored := find(answer.JSON, lite, "preview").Exists(), find(answer.JSON, lite, "continuation_token").Exists()
					if !answer.OK || isProbe != test.probe || stored != test.probe {
						t.Errorf("%s, lite %t: %.300s", entry, lite, answer.JSON)
					}
				}
			}
		})
	}
	// Nor is what select makes of one.
	selecting := engineOf(t, writingFunctions(), chain.Options{}, true)
	if a := selecting.Run(context.Background(), []byte(`{"lite":true,"steps":[`+stepOf("do.heavy", "[1,2]", `,"select":"len($result)"`)+`]}`),
		nil); string(a.JSON) != "2" {
		t.Errorf("a select: %.300s", a.JSON)
	}
	// What a return gives is no function's result.
	e := engineOf(t, writingFunctions(), chain.Options{ProbeAbove: 50}, true)
	answer := e.Run(context.Background(), []byte(`{"lite":true,"steps":[`+stepOf("do.light", wide(`"id":1`), "")+`],"return":"$0"}`), nil)
	if !gjson.GetBytes(answer.JSON, "preview").Exists() {
		t.Errorf("a return: %.300s", answer.JSON)
	}
}
