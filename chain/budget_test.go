package chain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
)

// drawValue draws a JSON value of a bounded size, with texts that are costly to count.
func drawValue(depth int) *rapid.Generator[any] {
	texts := rapid.OneOf(rapid.StringN(0, 40, 200), rapid.SampledFrom([]string{"", "name", "日本語のテキスト", "🙂🙃", strings.Repeat("ab ", 300),
		strings.Repeat("=", 500), "$0", "${x}"}))
	scalars := rapid.OneOf(texts.AsAny(), rapid.Int().AsAny(), rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.Bool().AsAny(),
		rapid.Just[any](nil))
	if depth == 0 {
		return scalars
	}
	deeper := rapid.Deferred(func() *rapid.Generator[any] { return drawValue(depth - 1) })
	return rapid.OneOf(scalars, rapid.SliceOfN(deeper, 0, 60).AsAny(), rapid.MapOfN(texts, deeper, 0, 30).AsAny())
}

// drawList draws a list that fits into some of the formats.
func drawList() *rapid.Generator[any] {
	texts := rapid.SampledFrom([]string{"name", "é|", "\"🙂\n", "a,b", strings.Repeat("ab ", 100)})
	rows := rapid.Custom(func(t *rapid.T) any {
		names := rapid.SliceOfNDistinct(texts, 1, 3, rapid.ID[string]).Draw(t, "names")
		list := make([]map[string]any, rapid.IntRange(0, 300).Draw(t, "rows"))
		for i := range list {
			list[i] = map[string]any{}
			for _, name := range names {
				list[i][name] = rapid.OneOf(texts.AsAny(), rapid.Int().AsAny(), rapid.Just[any]([]int{1})).Draw(t, "value")
			}
		}
		return list
	})
	return rapid.OneOf(rows, rapid.SliceOfN(texts, 0, 300).AsAny(), rapid.SliceOfN(rapid.Int(), 0, 300).AsAny())
}

// drawChain draws a chain: some of its steps fail, some have references that find nothing, some do not compile.
func drawChain(t *rapid.T) (request []byte, limit int, lite bool) {
	limit = rapid.OneOf(rapid.Just(budget.MinTokens), rapid.IntRange(budget.MinTokens, 2000)).Draw(t, "limit")
	lite = rapid.Bool().Draw(t, "lite")
	list := make([]map[string]any, rapid.IntRange(1, 12).Draw(t, "steps"))
	for i := range list {
		value := drawValue(2).Draw(t, "value")
		step := map[string]any{"fn": "test.get", "args": map[string]any{"value": value}}
		switch rapid.IntRange(0, 8).Draw(t, "kind") {
		case 0:
			step["fn"] = "test.echo"
		case 1:
			message := rapid.OneOf(rapid.StringN(0, 3000, -1), rapid.Custom(func(t *rapid.T) string {
				costly := rapid.SampledFrom([]string{"𓀀", "🙂", "\u0001", "\"\\", "ꙮ", "a"}).Draw(t, "costly")
				return strings.Repeat(costly, rapid.IntRange(1, 400).Draw(t, "times"))
			})).Draw(t, "message")
			step = map[string]any{"fn": "test.fail", "args": map[string]any{"message": message}}
		case 2:
			step["args"] = map[string]any{"value": fmt.Sprintf("$%d", rapid.IntRange(0, len(list)).Draw(t, "reference"))}
		case 3:
			step["args"] = map[string]any{"value": fmt.Sprintf("$%d.missing.%s", max(i-1, 0), rapid.StringMatching(`[a-z]{1,300}`).Draw(t, "key"))}
		case 4:
			step = map[string]any{"fn": "test.items", "args": map[string]any{"n": rapid.IntRange(0, 300).Draw(t, "n")}}
		case 5:
			step = map[string]any{"fn": "test.failIf", "forEach": "1..40", "args": map[string]any{"value": "$index", "fail": true}}
		}
		list[i] = step
	}
	if rapid.Bool().Draw(t, "gives a list") {
		before := rapid.SampledFrom([]int{0, 0, len(list)}).Draw(t, "before")
		list = append(list[:before], map[string]any{"fn": "test.get", "args": map[string]any{"value": drawList().Draw(t, "list")}})
	}
	chain := map[string]any{"steps": list, "lite": lite, "format": rapid.SampledFrom(chain.Formats()).Draw(t, "format"),
		"budget":  map[string]any{"maxTotalTokens": limit},
		"onError": rapid.SampledFrom([]string{"stop", "continue"}).Draw(t, "onError"),
		"trace":   rapid.SampledFrom([]string{"none", "summary", "full"}).Draw(t, "trace")}
	request, err := json.Marshal(chain)
	must(t, err)
	return request, limit, lite
}

// TestNoAnswerPassesItsBudget checks for random chains that the answer is JSON, costs no more than the budget and reports its exact cost,
// and that a failure keeps its code.
func TestNoAnswerPassesItsBudget(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	e := engine(t, &world{}, chain.Options{})
	rapid.Check(t, func(t *rapid.T) {
		request, limit, lite := drawChain(t)
		label := rapid.SampledFrom([]string{"", "", "batch.jsonl:1234", strings.Repeat("𓀀", 100)}).Draw(t, "label")
		answer := e.Run(context.Background(), request, &chain.Caller{Label: label})
		if !json.Valid(answer.JSON) && !answer.Text {
			t.Fatalf("the answer is not JSON: %s\nfor %s", answer.JSON, request)
		}
		cost := counter.Count(answer.JSON, -1)
		if cost > limit {
			t.Fatalf("the answer costs %d tokens, want at most %d: %s\nfor %s", cost, limit, answer.JSON, request)
		}
		if answer.OK && lite {
			return
		}
		if answer.Text {
			t.Fatalf("the answer is a text, but not lite: %s", answer.JSON)
		}
		if reported := gjson.GetBytes(answer.JSON, "usage.tokens").Int(); int(reported) != cost {
			t.Fatalf("the answer reports %d tokens, want %d, which it costs: %s", reported, cost, answer.JSON)
		}
		if ok := gjson.GetBytes(answer.JSON, "ok").Bool(); ok != answer.OK {
			t.Fatalf("the answer has ok %t, want %t as in Answer.OK", ok, answer.OK)
		}
		if code := gjson.GetBytes(answer.JSON, "error.code").Str; !answer.OK && fault.Code(code) != answer.Error.Code {
			t.Fatalf("the answer lacks the code %s: %s", answer.Error.Code, answer.JSON)
		}
	})
}

// TestPagesJoinedAreTheResult fetches a probed result page by page, each within the budget, and joins the pages.
func TestPagesJoinedAreTheResult(t *testing.T) {
	t.Parallel()
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 400})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(60, 400).Draw(t, "n")
		lite := rapid.Bool().Draw(t, "lite")
		answer := e.Run(context.Background(), fmt.Appendf(nil, `{"lite":%t,"steps":[{"fn":"test.items","args":{"n":%d},"select":"$result.items"}]}`, lite, n), nil)
		token := find(answer.JSON, lite, "continuation_token").Str
		if token == "" {
			t.Fatalf("the answer lacks a continuation token: %s", answer.JSON)
		}
		size := rapid.IntRange(1, 10).Draw(t, "size")
		var joined []string
		for page, more := 1, true; more; page++ {
			fetch := fmt.Appendf(nil, `{"lite":%t,"continuation_token":%q,"mode":"paginated","page":%d,"page_size":%d}`, lite, token, page, size)
			answer := e.Run(context.Background(), fetch, nil)
			if !answer.OK {
				t.Fatalf("page %d: %s, want success", page, answer.JSON)
			}
			for _, item := range find(answer.JSON, lite, "items").Array() {
				joined = append(joined, item.Raw)
			}
			more = find(answer.JSON, lite, "has_more").Bool()
		}
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf(`{"id":%d,"name":"item %d"}`, i, i))
		}
		if strings.Join(joined, ",") != strings.Join(want, ",") {
			t.Fatalf("joined pages are %s\nwant %s", strings.Join(joined, ","), strings.Join(want, ","))
		}
	})
}

// TestPagesInAFormat fetches a probed result in each format, by pages and in parts, and checks that no answer passes its budget, that each
// reports its exact cost, and that pages joined are the whole list.
func TestPagesInAFormat(t *testing.T) {
	t.Parallel()
	counter := newCounter(t, 0)
	e := engine(t, &world{}, chain.Options{MaxTotalTokens: 400})
	rapid.Check(t, func(t *rapid.T) {
		format := rapid.SampledFrom(chain.Formats()).Draw(t, "format")
		lite := rapid.Bool().Draw(t, "lite")
		list := rapid.SampledFrom([]string{`map(1..300, ({id: #, name: "n|" + string(#)}))`, `map(1..300, "n|" + string(#))`}).Draw(t, "list")
		asked := fmt.Sprintf(`"format":%q,"lite":%t`, format, lite)
		run := func(request string) *chain.Answer {
			answer := e.Run(context.Background(), []byte("{"+asked+","+request+"}"), nil)
			cost := counter.Count(answer.JSON, -1)
			if reported := gjson.GetBytes(answer.JSON, "usage.tokens"); cost > 400 || reported.Exists() && int(reported.Int()) != cost {
				t.Fatalf("%s costs %d tokens, want at most 400: %s", request, cost, answer.JSON)
			}
			return answer
		}
		probe := run(`"steps":[{"expr":"` + strings.ReplaceAll(list, `"`, `\"`) + `"}]`)
		token := find(probe.JSON, lite, "continuation_token").Str
		if !probe.OK || token == "" {
			t.Fatalf("the probe is %s", probe.JSON)
		}
		fetch := `"continuation_token":"` + token + `"`
		for _, mode := range []string{`"mode":"summary"`, `"mode":"full"`, `"query":"$result[:%d]"`, `"mode":"filtered","filter_keys":["id"]`, ``} {
			if strings.Contains(mode, "%d") {
				mode = fmt.Sprintf(mode, rapid.IntRange(0, 300).Draw(t, "items"))
			}
			run(strings.TrimSuffix(fetch+","+mode, ","))
		}
		size := rapid.SampledFrom([]int{1, 7, 10}).Draw(t, "size")
		var joined []string
		for page, more := 1, true; more; page++ {
			answer := run(fmt.Sprintf(`%s,"page":%d,"page_size":%d`, fetch, page, size))
			items := find(answer.JSON, lite, "items")
			if !answer.OK {
				t.Fatalf("page %d: %s, want success", page, answer.JSON)
			}
			more = find(answer.JSON, lite, "has_more").Bool()
			if items.IsArray() {
				for _, item := range items.Array() {
					joined = append(joined, strings.TrimSuffix(strings.TrimPrefix(item.String(), `{"id":`+fmt.Sprint(len(joined)+1)+`,"name":"`), `"}`))
				}
				continue
			}
			rows := strings.Split(items.Str, "\n")
			for _, row := range rows[len(rows)-min(size, 300-len(joined)):] {
				at := strings.Index(row, "n")
				joined = append(joined, strings.ReplaceAll(strings.TrimRight(row[at:], `"] |`), `\|`, "|"))
			}
		}
		for i, name := range joined {
			if want := fmt.Sprintf("n|%d", i+1); name != want {
				t.Fatalf("item %d is %q, want %q", i, name, want)
			}
		}
		if len(joined) != 300 {
			t.Fatalf("joined pages have %d items, want 300", len(joined))
		}
	})
}

// find returns a member of the result of an answer.
func find(answer []byte, lite bool, path string) gjson.Result {
	if lite {
		return gjson.GetBytes(answer, path)
	}
	return gjson.GetBytes(answer, "result."+path)
}
