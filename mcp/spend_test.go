package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/steps"
)

// smallAnswer is the limit of an answer in tokens when the session's tokens are used up.
const smallAnswer = 2 * budget.MinTokens

// spend is a model of a session's budget. It counts the answers as the client gets them.
type spend struct {
	counter         budget.Counter
	maximum, tokens int
	reported        int
}

func newSpend(t testing.TB, maximum int) *spend {
	t.Helper()
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		t.Fatal(err)
	}
	return &spend{counter: counter, maximum: maximum}
}

// due returns the mark that the next answer with warnings should warn of; 0: none.
func (m *spend) due() int {
	due := 0
	for _, mark := range []int{75, 90, 100} {
		if m.tokens*100 >= mark*m.maximum && mark > m.reported {
			due = mark
		}
	}
	return due
}

// sessionWarnings returns the warnings in an answer about the session's budget.
func sessionWarnings(text string) (reports []string) {
	if strings.HasPrefix(text, `{"ok":`) {
		for _, w := range gjson.Get(text, "warnings").Array() {
			if message := w.Get("message").Str; strings.Contains(message, "answers of this session") {
				reports = append(reports, message)
			}
		}
	}
	return reports
}

// spendCalls are calls by their kind. standard reports whether the answer is in the standard form, which has warnings.
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

// wordySource is a source whose functions take many words to describe.
type wordySource struct{}

func (wordySource) Functions() (list []steps.Function) {
	for i := range 10 {
		list = append(list, steps.Function{
			Spec: steps.Spec{Name: fmt.Sprintf("more.item.n%d", i), Description: "Does to an item " + strings.Repeat("one or another of many things ", 4), Effect: steps.Read},
			Call: func(context.Context, []byte) ([]byte, error) { return []byte("1"), nil },
		})
	}
	return list
}

func (wordySource) Close() error { return nil }
