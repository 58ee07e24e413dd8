package chain_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// symbols are functions as a server for source code offers them, in one repository only.
func symbols(t testing.TB) []steps.Function {
	read := func(name, properties, required, result string) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Input: schema(`"repoId":{"type":"string"},`+properties, "repoId", required)},
			Call: func(_ context.Context, args []byte) ([]byte, error) {
				if gjson.GetBytes(args, "repoId").Str != "my-repo" {
					return nil, fault.New(fault.FunctionFailed, "no such repository: %s", args)
				}
				return []byte(strings.ReplaceAll(result, "ID", gjson.GetBytes(args, "symbolId").Str)), nil
			},
		}
	}
	return []steps.Function{
		read("symbol.search", `"query":{"type":"string"},"limit":{"type":"integer"}`, "query",
			`{"symbols":[{"symbolId":"s-7","name":"handleAuth"}],"total":1}`),
		read("symbol.getCard", `"symbolId":{"type":"string"}`, "symbolId", `{"card":{"symbolId":"ID","kind":"function"}}`),
		read("code.skeleton", `"symbolId":{"type":"string"}`, "symbolId", `{"symbolId":"ID","skeleton":"func handleAuth(w, r) { … }"}`),
	}
}

// smallestExample is the smallest real example of the contract, letter for letter.
const smallestExample = `{"repoId":"my-repo",
     "steps":[{"fn":"symbolSearch","args":{"query":"handleAuth","limit":3}},
              {"fn":"symbolGetCard","args":{"symbolId":"$0.symbols[0].symbolId"}},
              {"fn":"codeSkeleton","args":{"symbolId":"$1.card.symbolId"}}],
     "budget":{"maxTotalTokens":4000},
     "onError":"continue"}`

func TestSmallestExample(t *testing.T) {
	t.Parallel()
	e := engineOf(t, symbols(t), chain.Options{Hoist: []string{"repoId"}}, true)
	answer := e.Run(context.Background(), []byte(smallestExample), nil)
	if got := gjson.GetBytes(answer.JSON, "result").Raw; !answer.OK || got != `{"symbolId":"s-7","skeleton":"func handleAuth(w, r) { … }"}` ||
		len(answer.Warnings) > 0 {
		t.Errorf("%s", answer.JSON)
	}
	// Without the setting, the field is one that nobody knows.
	answer = engineOf(t, symbols(t), chain.Options{}, true).Run(context.Background(), []byte(smallestExample), nil)
	if len(answer.Faults) == 0 || answer.Faults[0].Code != fault.UnknownField || answer.Faults[0].At != "/repoId" {
		t.Errorf("not hoisted: %s", answer.JSON)
	}
}

func TestHoist(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{Hoist: []string{"repoId", "tenant id", "limit"}, Lite: true})
	for request, want := range map[string]string{
		`{"repoId":"r","steps":[{"fn":"test.write","args":{"value":1}}]}`:                              `{"written":{"value":1,"repoId":"r"}}`,
		`{"repoId":"r","steps":[{"fn":"test.write","args":{"repoId":"own"}}]}`:                         `{"written":{"repoId":"own"}}`,
		`{"repoId":"$0","common":{"value":2},"steps":[{"fn":"test.write"}]}`:                           `{"written":{"value":2,"repoId":"$0"}}`,
		`{"repoId":null,"common":{"repoId":"c"},"steps":[{"fn":"test.write"}]}`:                        `{"written":{"repoId":"c"}}`,
		`{"repoId":"r","steps":[{"chain":{"steps":[{"fn":"test.write","args":{"value":1}}]}}]}`:        `{"written":{"value":1,"repoId":"r"}}`,
		`{"repoId":"r","common":{"repoId":"c"},"steps":[{"fn":"test.write"}]}`:                         `"code":"bad_request","at":"/repoId","message":"repoId is given here and in common: give it once"`,
		`{"repoID":"r","steps":[{"fn":"test.write"}]}`:                                                 `"code":"unknown_field","at":"/repoID","message":"unknown field \"repoID\": did you mean repoId?"`,
		`{"steps":[{"fn":"test.write","repoId":"r"}]}`:                                                 `"code":"unknown_field"`,
		`{"steps":[{"chain":{"repoId":"r","steps":[{"fn":"test.write"}]}}]}`:                           `"code":"unknown_field"`,
		`{"limit":0,"steps":[{"fn":"test.card.get","args":{"cardId":"x"}}]}`:                           `"code":"bad_arguments"`,
		`{"repoId":"r","repoId":"s","steps":[{"fn":"test.write"}]}`:                                    `"code":"bad_json"`,
		`{"tenant id":"t","lite":false,"trace":"none","steps":[{"fn":"test.get","args":{"value":1}}]}`: `"at":"/tenant id","message":"no step's function declares \"tenant id\"`,
	} {
		answer := e.Run(context.Background(), []byte(request), nil)
		if got := string(answer.JSON); got != want && (strings.HasPrefix(want, "{") || !strings.Contains(got, want)) {
			t.Errorf("%s\nanswered %s\nwant     %s", request, got, want)
		}
	}
	hash := func(repo string) string {
		answer := e.Run(context.Background(), fmt.Appendf(nil, `{"repoId":%q,"lite":true,"dryRun":true,"steps":[{"fn":"test.write"}]}`, repo),
			nil)
		return gjson.GetBytes(answer.JSON, "hash").Str
	}
	first := hash("a")
	if first == "" || first != hash("a") || first == hash("b") {
		t.Errorf("the hash of a plan: %s, %s", first, hash("b"))
	}
}

// TestGivenInAnySpelling: common and hoisted values give way to a step's own argument in whatever spelling it is given, and
// no argument is sent twice.
func TestGivenInAnySpelling(t *testing.T) {
	t.Parallel()
	echo := func(name, input string, aliases map[string]string) steps.Function {
		return steps.Function{
			Spec: steps.Spec{Name: name, Effect: steps.Read, EffectDeclared: true, Input: []byte(input), Aliases: aliases},
			Call: func(_ context.Context, args []byte) ([]byte, error) { return append([]byte(nil), args...), nil },
		}
	}
	const repo = `{"type":"object","properties":{"repo_id":{"type":"string"},"n":{"type":"integer"}}`
	e := engineOf(t, []steps.Function{
		echo("r.closed", repo+`,"additionalProperties":false}`, nil),
		echo("r.open", repo+`}`, nil),
		echo("r.aliased", repo+`}`, map[string]string{"r": "repo_id"}),
		echo("r.free", repo+`,"additionalProperties":true}`, nil), // repoId is a key of the caller's own
		echo("r.twins", `{"type":"object","properties":{"repo_id":{},"repoId":{}}}`, nil),
	}, chain.Options{Hoist: []string{"repoId"}, Lite: true}, true)
	const twice = `"code":"bad_request"`
	for request, want := range map[string]string{
		`{"repoId":"h","steps":[{"fn":"r.closed"}]}`:                                                                                  `{"repo_id":"h"}`,
		`{"repoId":"h","steps":[{"fn":"r.closed","args":{"repo_id":"own"}}]}`:                                                         `{"repo_id":"own"}`,
		`{"repoId":"h","steps":[{"fn":"r.closed","args":{"repoId":"own"}}]}`:                                                          `{"repo_id":"own"}`,
		`{"repoId":"h","steps":[{"fn":"r.closed","args":{"REPO_ID":"own"}}]}`:                                                         `{"repo_id":"own"}`,
		`{"repoId":"h","steps":[{"fn":"r.closed","args":{"n":1,"repo\u0049d":"own"}}]}`:                                               `{"n":1,"repo_id":"own"}`,
		`{"common":{"repo-id":"c"},"steps":[{"fn":"r.open","args":{"RepoId":"own"}}]}`:                                                `{"repo_id":"own"}`,
		`{"common":{"repo_id":"c"},"steps":[{"fn":"r.open","args":{"repoId":"$input.x"}}],"input":{"x":"own"}}`:                       `{"repo_id":"own"}`,
		`{"repoId":"h","steps":[{"fn":"r.aliased","args":{"r":"own"}}]}`:                                                              `{"repo_id":"own"}`,
		`{"common":{"r":"c"},"steps":[{"fn":"r.aliased","args":{"REPOID":"own"}}]}`:                                                   `{"repo_id":"own"}`,
		`{"common":{"repo_id":"c"},"steps":[{"fn":"r.free","args":{"repoId":"own"}}]}`:                                                `{"repoId":"own","repo_id":"c"}`,
		`{"common":{"repo_id":"c","repoId":"d"},"steps":[{"fn":"r.twins"}]}`:                                                          `{"repo_id":"c","repoId":"d"}`,
		`{"repoId":"h","common":{"repo_id":"h"},"steps":[{"fn":"r.closed"}]}`:                                                         `{"repo_id":"h"}`,
		`{"repoId":"h","common":{"repo_id":"c"},"steps":[{"fn":"r.closed","args":{"repoId":"own"}}]}`:                                 `{"repo_id":"own"}`,
		`{"repoId":"h","common":{"repo_id":"c"},"steps":[{"fn":"r.closed"},{"fn":"r.open"}]}`:                                         twice + `,"at":"/repoId","message":"repo_id and repoId are both repo_id of r.closed, and not the same: give it once"`,
		`{"common":{"REPO_ID":"c","repo-id":"d"},"steps":[{"fn":"r.closed"}]}`:                                                        twice + `,"at":"/common/repo-id"`,
		`{"repoId":"h","common":{"repo_id":"c"},"steps":[{"chain":{"steps":[{"fn":"r.closed"}]}},{"fn":"r.closed"},{"fn":"r.open"}]}`: `"message":"1 fault"`,
	} {
		answer := e.Run(t.Context(), []byte(request), nil)
		if got := string(answer.JSON); got != want && (strings.HasPrefix(want, "{") || !strings.Contains(got, want)) {
			t.Errorf("%s\nanswered %s\nwant     %s", request, got, want)
		}
	}
}

// TestHoistFaults: what the contract has a field for, in any request, cannot be hoisted.
func TestHoistFaults(t *testing.T) {
	t.Parallel()
	refused := []string{"", "steps", "input", "lite", "verify", "fn", "args", "forEach", "id", "continuation_token", "mode", "query",
		"page_size", "resume", "approve", "undo", "chain", "action", "resource", "params", "schema", "again", "names"}
	registry := registryOf(t, &world{})
	for _, name := range refused {
		_, err := chain.New(&chain.Options{Functions: registry, Hoist: []string{"repoId", name}})
		if f, ok := fault.As(err); !ok || f.Code != fault.BadRequest || f.At != "/hoist/1" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestFetchBesideHoisted: a call that is sent again as a fetch may keep its hoisted names.
func TestFetchBesideHoisted(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 300, Lite: true, Hoist: []string{"repoId"}})
	answer := e.Run(t.Context(), []byte(`{"steps":[{"fn":"test.items","args":{"n":500}}]}`), nil)
	token := gjson.GetBytes(answer.JSON, "continuation_token").Raw
	for fetch, want := range map[string]string{
		`{"repoId":"x","continuation_token":` + token + `,"query":"total"}`:                "500",
		`{"continuation_token":` + token + `,"query":"total","repoId":null}`:               "500",
		`{"repoId":{"a":1},"params":{"continuation_token":` + token + `,"query":"total"}}`: "500",
		`{"repoID":"x","continuation_token":` + token + `,"query":"total"}`:                `"at":"/repoID"`,
		`{"params":{"repoId":"x","continuation_token":` + token + `,"query":"total"}}`:     `"at":"/params/repoId"`,
		`{"repoId":"x","steps":[],"continuation_token":` + token + `}`:                     `"code":"bad_request"`,
	} {
		if got := string(e.Run(t.Context(), []byte(fetch), nil).JSON); !strings.Contains(got, want) {
			t.Errorf("%s\nanswered %s\nwant     %s", fetch, got, want)
		}
	}
}

// TestQueryPaths: the root may be left out of a path.
func TestQueryPaths(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 300, Lite: true})
	answer := e.Run(context.Background(), []byte(`{"steps":[{"fn":"test.items","args":{"n":500}}]}`), nil)
	token := gjson.GetBytes(answer.JSON, "continuation_token").Str
	for query, want := range map[string]string{
		"$result.total": "500", ".total": "500", "total": "500", "items[1].id": "1", ".items[-1].id": "499", `["total"]`: "500",
		"$result.total + 1": "501", "?.total": "500", "len($result.items)": "500", "totel": `"code":"reference_missing","at":"/params/query"`,
	} {
		answer := e.Run(context.Background(), fmt.Appendf(nil, `{"params":{"continuation_token":%q,"query":%q}}`, token, query), nil)
		if got := string(answer.JSON); got != want && (answer.OK || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
