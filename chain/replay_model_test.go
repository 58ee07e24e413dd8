package chain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/memstore"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/replay"
)

// configuredSecret is the default of api_key, and is configured as a secret.
const configuredSecret = "configured-s3cret-of-defaults"

// TestReplayEqualsRun: a replay, which has no source, gives the same answer as the recorded run, byte for byte except for continuation
// tokens, even if the configured secret is missing. The answer does not show that secret, and the recording shows no secret at all. The
// chains and the registry are random, with hoisted names, common arguments, aliases, other spellings, defaults, secrets, forEach and
// failures.
func TestReplayEqualsRun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		fns := drawFunctions(rt)
		request := []byte(drawRequest(rt, fns))
		secretMissing := rapid.Bool().Draw(rt, "the configured secret is missing at the replay")
		var recording, run, replayed string
		synctest.Test(t, func(t *testing.T) { // time is fake
			run, recording = recordRun(t, fns, request)
			replayed = replayRun(t, recording, request, secretMissing)
		})
		if gjson.Get(run, "error.code").Str == "compile" {
			rt.Skip("the chain does not compile")
		}
		if run != replayed {
			rt.Fatalf("chain: %s\nthe replay answers: %s\nwant the answer of the run: %s\nrecording:\n%s", request, replayed, run, recording)
		}
		if strings.Contains(run, configuredSecret) {
			rt.Fatalf("chain: %s\nthe answer shows the configured secret: %s", request, run)
		}
		for _, hidden := range []string{configuredSecret, "pass-w0rd-one", "pass-w0rd-two"} {
			if strings.Contains(recording, hidden) {
				rt.Fatalf("chain: %s\nthe recording shows the secret %s:\n%s", request, hidden, recording)
			}
		}
	})
}

func recordRun(t *testing.T, fns []steps.Function, request []byte) (answer, recording string) {
	scrubber := secret.New([]string{configuredSecret})
	registry, err := steps.NewRegistry(fns, &steps.RegistryOptions{Scrubber: scrubber})
	must(t, err)
	var file bytes.Buffer
	recorder := replay.NewRecorder(&file, nil).WithSecrets([]string{configuredSecret})
	e := engineFor(t, registry.Observe(recorder.Observe), recorder.Functions)
	answer = answerOf(t.Context(), e, request)
	must(t, recorder.Err())
	return answer, file.String()
}

func replayRun(t *testing.T, recording string, request []byte, secretMissing bool) string {
	cassette, err := replay.Read(strings.NewReader(recording), "recording")
	if err != nil {
		t.Fatalf("reading the recording: %v\n%s", err, recording)
	}
	if !secretMissing {
		cassette.Secrets = []string{configuredSecret}
	}
	empty := newRegistry(t, nil)
	registry, err := cassette.Registry(empty)
	if err != nil {
		t.Fatalf("making a registry from the recording: %v\n%s", err, recording)
	}
	return answerOf(cassette.Cursor(t.Context(), ""), engineFor(t, registry, nil), request)
}

func engineFor(t *testing.T, functions *steps.Registry, planned func([]*steps.Entry)) *chain.Engine {
	store, err := memstore.New(nil)
	must(t, err)
	results, err := budget.NewResults(store, nil)
	must(t, err)
	t.Cleanup(func() { results.Close() })
	// How long a call takes depends on its function and arguments alone, so that parallel calls end in the same order in the run and in the
	// replay. An api_key does not count: it may be a secret in the run, and a digest in the replay.
	slow := functions.Wrap(func(spec *steps.Spec, call steps.Call) steps.Call {
		return func(ctx context.Context, args []byte) ([]byte, error) {
			h := fnv.New32()
			_, _ = h.Write(apiKey.ReplaceAll([]byte(spec.Name+string(args)), nil))
			time.Sleep(time.Millisecond + time.Duration(h.Sum32()%1_000_000))
			return call(ctx, args)
		}
	})
	e, err := chain.New(&chain.Options{Functions: slow, Hoist: []string{"repoId"}, Planned: planned, Results: results, LeanAbove: 5})
	must(t, err)
	return e
}

// answerOf runs a request and returns the answer without what is random: continuation tokens, and token counts, which depend on them.
func answerOf(ctx context.Context, e *chain.Engine, request []byte) string {
	answer := string(e.Run(ctx, request, nil).JSON)
	if without := continuationToken.ReplaceAllString(answer, "TOKEN"); without != answer {
		return tokenMember.ReplaceAllString(without, `"tokens":0`)
	}
	return answer
}

var (
	apiKey            = regexp.MustCompile(`"api_key":"(\\.|[^"\\])*"`)
	continuationToken = regexp.MustCompile(`oc1_[A-Za-z0-9_-]+`)
	tokenMember       = regexp.MustCompile(`"tokens":\d+`)
)

// spellings maps the name of a function to the names by which chains may call it.
var spellings = map[string][]string{
	"shop.put_item": {"shop.put_item", "shopPutItem", "putItem"}, "shop.item.delete": {"shop.item.delete", "item.delete", "shop_item_delete"},
	"shop.list": {"shop.list", "list", "shopList"}, "box.find-all": {"box.find-all", "boxFindAll", "findAll"},
}

func drawFunctions(t *rapid.T) []steps.Function {
	properties := map[string]string{"n": `{"type":"integer"}`, "text": `{"type":"string"}`, "list": `{"type":"array"}`,
		"password": `{"type":"string"}`,
		"api_key":  `{"type":"string"}`, "pageToken": `{"type":"string"}`, "repoId": `{"type":"string"}`, "any": `{}`}
	var fns []steps.Function
	for _, name := range []string{"shop.put_item", "shop.item.delete", "shop.list", "box.find-all"} {
		draw := func(what string) bool { return rapid.Bool().Draw(t, name+": "+what) }
		members := []string{} // of properties in the input schema
		for _, property := range []string{"n", "text", "list", "password", "api_key", "pageToken", "repoId", "any"} {
			if draw(property) {
				members = append(members, fmt.Sprintf("%q:%s", property, properties[property]))
			}
		}
		spec := steps.Spec{Name: name, Input: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"additionalProperties":%t}`,
			strings.Join(members, ","), draw("additional properties"))),
			Effect:         rapid.SampledFrom([]steps.Effect{steps.Read, steps.Write, steps.Destroy}).Draw(t, name+": effect"),
			EffectDeclared: draw("effect declared"), Idempotent: draw("idempotent"), Deletes: draw("deletes"),
			Heavy:   rapid.SampledFrom([]string{"", "", "", "always", "never"}).Draw(t, name+": heavy"),
			Timeout: rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, name+": timeout")}
		if draw("aliases") {
			spec.Aliases = map[string]string{"words": "text", "count": "n"}
		}
		if draw("defaults") {
			spec.Defaults = json.RawMessage(`{"n":7,"api_key":"` + configuredSecret + `"}`)
		}
		if draw("redacts arguments") {
			spec.Redact = secret.Arguments(spec.Input)
		}
		if draw("output schema") {
			spec.Output = json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"},"items":{"type":"array"},"again":{}}}`)
		}
		fns = append(fns, steps.Function{Spec: spec, Call: echo(spec.Effect)})
	}
	return fns
}

// echo returns a function whose result contains its arguments and the number of its writes so far. It fails if n is 3 or 4.
func echo(effect steps.Effect) steps.Call {
	var mu sync.Mutex
	writes := 0
	return func(ctx context.Context, args []byte) ([]byte, error) {
		mu.Lock()
		if effect != steps.Read { // the engine runs writes one after another
			writes++
		}
		id := writes
		mu.Unlock()
		switch gjson.GetBytes(args, "n").Int() {
		case 3:
			return nil, &fault.Error{Code: fault.FunctionFailed, Message: "refused " + string(args), Status: 409,
				Body: []byte(`{"given":` + string(args) + `}`)}
		case 4:
			return nil, &fault.Error{Code: fault.Unavailable, Message: "gone", Outcome: fault.SentUnknown}
		}
		if reportStatus := steps.CallbacksOf(ctx).Status; reportStatus != nil {
			reportStatus(201)
		}
		return fmt.Appendf(nil, `{"id":%d,"note":"a\u00e9\/b production","items":[{"id":1,"v":1.10},{"id":2}],"again":%s}`, id, args), nil
	}
}

func drawRequest(t *rapid.T, fns []steps.Function) string {
	var list []string
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		list = append(list, drawStep(t, fns, i))
	}
	text := `"steps":[` + strings.Join(list, ",") + `]`
	for _, field := range [][]string{
		{"onError", `"stop"`, `"continue"`}, {"lite", "true", "false"}, {"verify", "true", "false"}, {"trace", `"none"`, `"summary"`},
		{"repoId", `"my-repo"`}, {"common", `{"text":"of all","unused":1}`, `{"password":"pass-w0rd-two"}`}, {"return", `"$0"`, `{"a":"$0.again?.text","b":"${0.note}"}`, `"$0.missing"`},
		{"budget", `{"maxDurationMs":60000}`},
	} {
		if name, values := field[0], field[1:]; rapid.IntRange(0, 2).Draw(t, name) == 0 {
			text += `,"` + name + `":` + rapid.SampledFrom(values).Draw(t, name+"'s value")
		}
	}
	return "{" + text + "}"
}

func drawStep(t *rapid.T, fns []steps.Function, i int) string {
	draw := func(what string, values ...string) string {
		if rapid.IntRange(0, 2).Draw(t, what) > 0 {
			return ""
		}
		return rapid.SampledFrom(values).Draw(t, what+"'s value")
	}
	name := rapid.SampledFrom(spellings[fns[rapid.IntRange(0, len(fns)-1).Draw(t, "function")].Name]).Draw(t, "spelling")
	var args, fields []string
	forEach := draw("forEach", "[1,2,3]", "$0.items", "[]")
	for _, arg := range [][]string{{"n", "1", "2", "3", "4", `"$0.id"`, `"x"`}, {"text", `"plain"`, `"${0.note} and more"`, `"$0.note"`,
		`"$0.gone"`}, {"words", `"an alias"`},
		{"list", "[]", `"$0.items"`, "[1.0,null]"}, {"password", `"pass-w0rd-one"`, `"pass-w0rd-two"`, `"production"`}, {"pageToken", `"cursor-1"`, `"cursor-2"`},
		{"PageToken", `"cursor-3"`}, {"api_key", `"pass-w0rd-one"`}, {"any", `{"password":"production"}`, `"$0"`, "1.10"}, {"repo_id", `"other"`}} {
		value := draw(arg[0], arg[1:]...)
		if i == 0 && (strings.Contains(value, "$0") || strings.Contains(value, "{0")) {
			value = "" // no step comes before the first
		}
		if value != "" {
			args = append(args, fmt.Sprintf("%q:%s", arg[0], value))
		}
	}
	if forEach != "" && (i > 0 || !strings.Contains(forEach, "$")) {
		fields = append(fields, fmt.Sprintf(`"forEach":%q,"concurrency":1`, forEach))
		args = append(args, `"item":"$item"`)
	}
	for _, field := range [][]string{{"when", `"1 > 0"`, `"1 > 2"`}, {"select", `"$result.items"`, `"len($result.items)"`},
		{"orElse", "null", `{"id":9}`}, {"repeat", `{"until":"$result.id > 1","max":3}`}, {"timeoutMs", "500"}} {
		if value := draw(field[0], field[1:]...); value != "" {
			fields = append(fields, fmt.Sprintf("%q:%s", field[0], value))
		}
	}
	return fmt.Sprintf(`{"fn":%q,"args":{%s}%s}`, name, strings.Join(args, ","), strings.Join(append([]string{""}, fields...), ","))
}
