package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// smallAnswer is what an answer may have when the session's tokens are used up.
const smallAnswer = 2 * budget.LeastTokens

// spend is a model of a session's budget, fed with the answers as its client gets them.
type spend struct {
	counter      budget.Counter
	most, tokens int
	told         int
}

func newSpend(t testing.TB, most int) *spend {
	t.Helper()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &spend{counter: counter, most: most}
}

// due is the mark that the next answer with warnings is to tell of; 0: none.
func (m *spend) due() int {
	due := 0
	for _, mark := range []int{75, 90, 100} {
		if m.tokens*100 >= mark*m.most && mark > m.told {
			due = mark
		}
	}
	return due
}

// sessionWarnings are those in an answer that tell of the session's budget.
func sessionWarnings(text string) (told []string) {
	if strings.HasPrefix(text, `{"ok":`) {
		for _, w := range gjson.Get(text, "warnings").Array() {
			if message := w.Get("message").Str; strings.Contains(message, "answers of this session") {
				told = append(told, message)
			}
		}
	}
	return told
}

// spendCalls are calls by what they are for; standard tells that the answer is in the standard form, which has warnings.
var spendCalls = map[string]struct {
	tool, args string // %d in args: how much
	standard   bool
}{
	"chain":     {"chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":%d}}]}`, true},
	"low":       {"chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":%d}}],"budget":{"maxTotalTokens":200}}`, true},
	"lite":      {"chain", `{"lite":true,"steps":[{"fn":"shop.item.list","args":{"limit":%d}}]}`, false},
	"failure":   {"chain", `{"lite":true,"steps":[{"fn":"shop.item.get","args":{"id":"%d"}}]}`, true},
	"faults":    {"chain", `{"lite":true,"step":%d}`, true},
	"search":    {"search", `{"query":"item","again":true,"page":1}`, false},
	"info":      {"info", `{}`, false},
	"flat":      {"shop_item_list", `{"limit":%d}`, false},
	"flat text": {"shop_echo", `{"text":"%d"}`, false},
	"fetch":     {"chain", `{"continuation_token":%q,"mode":"full"}`, true},
	"lite page": {"chain", `{"continuation_token":%q,"mode":"paginated","page_size":5,"lite":true}`, false},
	"flat page": {"shop_item_list", `{"continuation_token":%q,"mode":"paginated","page_size":5}`, true},
}

// wordy is a source whose functions take many words to describe.
type wordy struct{}

func (wordy) Functions() (list []steps.Function) {
	for i := range 10 {
		list = append(list, steps.Function{
			Spec: steps.Spec{Name: fmt.Sprintf("more.item.n%d", i), Description: "Does to an item " + strings.Repeat("one or another of many things ", 4), Effect: steps.Read},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil },
		})
	}
	return list
}

func (wordy) Close() error { return nil }

// TestSessionSpending: what info tells is what the client has counted, each warning comes once, and when the tokens are
// used up every answer is small but those to fetches.
func TestSessionSpending(t *testing.T) {
	t.Parallel()
	const most = 6000
	s := serve(t, func(o *Options) {
		o.Surface, o.SessionTokens = SurfaceFlat, most
		if err := o.Catalog.Add("more", wordy{}); err != nil {
			t.Fatal(err)
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		client := s.stdio(t, writer, nil)
		defer client.Close()
		m := newSpend(t, most)
		kept, _ := ask(t, client, "chain", `{"lite":true,"steps":[{"fn":"shop.item.list","args":{"limit":80}}],"budget":{"maxTotalTokens":200}}`)
		m.tokens += m.counter.Count([]byte(kept), -1)
		token := gjson.Get(kept, "continuation_token").Str
		if token == "" {
			r.Fatalf("no probe: %s", kept)
		}
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			kind := rapid.SampledFrom([]string{"chain", "low", "lite", "failure", "faults", "search", "info", "flat", "flat text", "fetch", "lite page", "flat page"}).Draw(r, "kind")
			one, fetches, args := spendCalls[kind], false, ""
			switch {
			case strings.Contains(one.args, "%q"):
				args, fetches = fmt.Sprintf(one.args, token), true
			case strings.Contains(one.args, "%d"):
				args = fmt.Sprintf(one.args, rapid.IntRange(0, 60).Draw(r, "how much"))
			default:
				args = one.args
			}
			text, _ := ask(t, client, one.tool, args)
			n := m.counter.Count([]byte(text), -1)
			if m.tokens >= most && !fetches && n > smallAnswer {
				r.Errorf("%s %s: %d tokens after %d of %d: %s", one.tool, args, n, m.tokens, most, text)
			}
			if limit := gjson.Get(text, "usage.limit").Int(); kind == "low" && limit != 200 || m.tokens >= most && kind == "chain" && limit != smallAnswer || m.tokens < most && kind == "chain" && limit != 10_000 {
				r.Errorf("%s: limit %d after %d", kind, limit, m.tokens)
			}
			if kind == "search" && !gjson.Get(text, "functions").Exists() {
				r.Errorf("a search after %d: %s", m.tokens, text)
			}
			if kind == "fetch" && gjson.Get(text, "result.items.#").Int() != 80 {
				r.Errorf("a fetch after %d: %.200s", m.tokens, text)
			}
			if kind == "info" && (gjson.Get(text, "session.tokens").Int() != int64(m.tokens) || gjson.Get(text, "session.maxTokens").Int() != most) {
				r.Errorf("counted %d: %s", m.tokens, text)
			}
			told := sessionWarnings(text)
			if due := m.due(); due > 0 && one.standard && kind != "low" {
				if len(told) != 1 || (due == 100) != strings.Contains(told[0], "used up") {
					r.Errorf("%s after %d, due %d: %q in %s", kind, m.tokens, due, told, text)
				}
			} else if len(told) > 0 && (due == 0 || !one.standard) {
				r.Errorf("%s after %d: %q", kind, m.tokens, told)
			}
			if len(told) > 0 {
				m.told = m.due()
			}
			m.tokens += n
		}
		if text, _ := ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() != int64(m.tokens) {
			r.Errorf("counted %d: %s", m.tokens, text)
		}
	})
}

// Calls at the same time lose no token and give no warning twice; sessions are apart, over either transport.
func TestSessionSpendingAtOnce(t *testing.T) {
	t.Parallel()
	const most = 20_000
	s := serve(t, func(o *Options) { o.SessionTokens = most })
	url := s.http(t, writer)
	var all sync.WaitGroup
	for i, client := range []*sdk.ClientSession{s.stdio(t, writer, nil), over(t, url, "2025-11-25", nil), over(t, url, "2025-11-25", nil)} {
		all.Go(func() {
			m := newSpend(t, most)
			var mu sync.Mutex
			times := map[string]int{}
			note := func(text string) {
				mu.Lock()
				defer mu.Unlock()
				m.tokens += m.counter.Count([]byte(text), -1)
				for _, message := range sessionWarnings(text) {
					kind := "used up"
					if !strings.Contains(message, kind) {
						kind = "near"
					}
					times[kind]++
				}
			}
			var calls sync.WaitGroup
			for j := range 6 {
				calls.Go(func() {
					for k := range 14 {
						text, _ := ask(t, client, "chain", fmt.Sprintf(`{"lite":%v,"steps":[{"fn":"shop.item.list","args":{"limit":%d}}]}`, (j+k)%3 == 0, 5+i+j))
						note(text)
					}
				})
			}
			calls.Wait()
			if m.tokens < most {
				t.Errorf("%d tokens are too few for this test", m.tokens)
			}
			for range 2 {
				text, _ := ask(t, client, "chain", `{"steps":[{"fn":"shop.echo"}]}`)
				note(text)
			}
			if times["used up"] != 1 || times["near"] > 2 {
				t.Errorf("warned of %v", times)
			}
			if text, _ := ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() != int64(m.tokens) {
				t.Errorf("counted %d: %s", m.tokens, text)
			}
		})
	}
	all.Wait()
	none := over(t, url, "2026-07-28", nil)
	for range 40 {
		if text, _ := ask(t, none, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":40}}]}`); sessionWarnings(text) != nil || gjson.Get(text, "result.items.#").Int() != 40 {
			t.Fatalf("a client without a session: %.300s", text)
		}
	}
	if text, _ := ask(t, none, "info", `{}`); gjson.Get(text, "session").Raw != `{"tokens":0,"maxTokens":20000,"note":"this client has no session: nothing is added up"}` {
		t.Errorf("a client without a session: %s", text)
	}
}

// A warning that a call has to tell is not told by another meanwhile; what a client has given up to read comes again.
func TestSessionWarningHeld(t *testing.T) {
	t.Parallel()
	s := serve(t, func(o *Options) { o.SessionTokens = 4500 })
	client := s.stdio(t, writer, nil)
	if text, _ := ask(t, client, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":80}}]}`); sessionWarnings(text) != nil || gjson.Get(text, "usage.tokens").Int() < 3375 {
		t.Fatalf("the first: %s", text)
	}
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := client.CallTool(ctx, &sdk.CallToolParams{Name: "chain", Arguments: json.RawMessage(`{"steps":[{"fn":"shop.slow"}]}`)})
		given <- err
	}()
	<-s.shop.started
	if text, _ := ask(t, client, "chain", `{"steps":[{"fn":"shop.echo"}]}`); sessionWarnings(text) != nil {
		t.Errorf("told by two: %s", text)
	}
	cancel()
	if err := <-given; err == nil {
		t.Error("a cancelled call was answered")
	}
	<-s.shop.ended
	told := func() int {
		text, _ := ask(t, client, "chain", `{"steps":[{"fn":"shop.item.get","args":{}}]}`)
		return len(sessionWarnings(text))
	}
	for deadline := time.Now().Add(10 * time.Second); s.telling(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cancelled call has not ended")
		}
	}
	if first, second := told(), told(); first != 1 || second != 0 {
		t.Errorf("a warning that nobody has read was told %d times, and then %d", first, second)
	}
	if text, _ := ask(t, client, "info", `{}`); gjson.Get(text, "session.tokens").Int() > 4050 {
		t.Errorf("another warning was due: %s", text)
	}
}

// telling tells whether a call of any session is to tell a warning.
func (s *served) telling() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.sessions {
		n.spent.mu.Lock()
		telling := n.spent.telling
		n.spent.mu.Unlock()
		if telling {
			return true
		}
	}
	return false
}

// What flat tools give is counted as it is, and passed on as long as the session's tokens last; after that by a probe which
// loses nothing.
func TestSessionSpendingOfUpstreams(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 500)
	results := map[string]string{
		"text":       `{"content":[{"type":"text","text":"` + long + `"}]}`,
		"both":       `{"content":[{"type":"text","text":"short"}],"structuredContent":{"a":1.10}}`,
		"structured": `{"content":[],"structuredContent":{"a":"` + long + `"}}`,
		"image":      `{"content":[{"type":"text","text":"see"},{"type":"image","data":"` + strings.Repeat("AAAA", 800) + `","mimeType":"image/png"}]}`,
		"resource":   `{"content":[{"type":"resource","resource":{"uri":"a://b","text":"` + long + `"}}]}`,
		"failed":     `{"content":[{"type":"text","text":"` + long + `"}],"isError":true}`,
	}
	b := newBehind(t, "a", false)
	for name, result := range results {
		b.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{"type":"object"}`),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var r sdk.CallToolResult
			return &r, json.Unmarshal([]byte(result), &r)
		})
	}
	const most = 5000
	s := serve(t, func(o *Options) {
		o.Surface, o.SessionTokens, o.Upstreams = SurfaceFlat, most, []Upstream{b}
		if err := o.Catalog.Add(b.name, b.source); err != nil {
			t.Fatal(err)
		}
		steps.Await(t.Context(), o.Catalog, nil)
		for name := range results { // the server tells of them one after the other
			for changed := o.Catalog.Changed(); !o.Catalog.Registry().HasName(b.name + "." + name); changed = o.Catalog.Changed() {
				<-changed
			}
		}
	})
	m := newSpend(t, most)
	client := legacyStdio(t, s, nil)
	list, err := client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.OutputSchema != nil {
			t.Errorf("%s promises a form that a probe does not have", tool.Name)
		}
	}
	call := func(tool, args string) *sdk.CallToolResult {
		t.Helper()
		result, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
		if err != nil {
			t.Fatal(tool, err)
		}
		return result
	}
	counted := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			m.tokens += m.counter.Count([]byte(text), -1)
		}
		info := textOf(t, call("info", `{}`))
		if got := gjson.Get(info, "session.tokens").Int(); got != int64(m.tokens) {
			t.Errorf("counted %d: %s", m.tokens, info)
		}
		m.tokens += m.counter.Count([]byte(info), -1)
	}
	// "failed" ends the tokens.
	for name, text := range map[string]string{"text": long, "both": `{"a":1.1}`, "structured": `{"a":"` + long + `"}`, "image": "see", "resource": long} {
		got, err := json.Marshal(call(name, `{}`))
		if err != nil || !equalJSON(got, results[name]) {
			t.Errorf("%s, %v: %.300s", name, err, got)
		}
		counted(text)
	}
	for m.tokens < most {
		if got := call("failed", `{}`); !got.IsError || len(textOf(t, got)) != len(long) {
			t.Errorf("failed: %+v", got)
		}
		counted(long)
	}
	if got := call("both", `{}`); got.StructuredContent == nil {
		t.Errorf("a small answer: %+v", got)
	}
	counted(`{"a":1.1}`)
	for name, path := range map[string]string{"text": "@this", "structured": "a", "image": "1.data", "resource": "0.resource.text"} {
		probe := textOf(t, call(name, `{}`))
		if m.counter.Count([]byte(probe), -1) > smallAnswer {
			t.Errorf("%s: %s", name, probe)
		}
		counted(probe)
		fetched := textOf(t, call("chain", fmt.Sprintf(`{"lite":true,"mode":"full","continuation_token":%q}`, gjson.Get(probe, "continuation_token").Str)))
		counted(fetched)
		want := gjson.Get(results[name], "content")
		switch name {
		case "text":
			want = want.Get("0.text")
		case "structured":
			want = gjson.Get(results[name], "structuredContent.a")
		default:
			want = want.Get(path)
		}
		if got := gjson.Get(fetched, path).String(); got != want.String() && strings.Trim(got, `"`) != want.String() {
			t.Errorf("%s: fetched %.200s", name, fetched)
		}
	}
	failed := call("failed", `{}`)
	if text := textOf(t, failed); !failed.IsError || m.counter.Count([]byte(text), -1) > smallAnswer || gjson.Get(text, "error.code").Str != "function_failed" {
		t.Errorf("failed: %+v", failed)
	}
	counted(textOf(t, failed))
	if got := textOf(t, call("a_ask", `{"by":"x"}`)); !strings.HasPrefix(got, "refused: ") {
		t.Errorf("asked: %s", got)
	}
}

// equalJSON tells whether two texts are the same JSON value.
func equalJSON(a []byte, b string) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// Without a budget for the session nothing is told of one.
func TestSessionSpendingOff(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	client := s.stdio(t, writer, nil)
	for range 8 {
		if text, _ := ask(t, client, "chain", `{"steps":[{"fn":"shop.item.list","args":{"limit":100}}]}`); strings.Contains(text, "warnings") || gjson.Get(text, "usage.limit").Int() != 10_000 {
			t.Fatalf("answered %.300s", text)
		}
	}
	if text, _ := ask(t, client, "info", `{}`); gjson.Get(text, "session").Exists() {
		t.Errorf("info: %s", text)
	}
	o := *s.o()
	o.SessionTokens = -1
	if _, err := New(&o); fault.CodeOf(err) != fault.BadRequest {
		t.Errorf("below zero: %v", err)
	}
}
