package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/steps"
)

// TestQuestionEscapesText checks that no argument and no undo can imitate a line of the question, reverse its text or hide a part of it.
func TestQuestionEscapesText(t *testing.T) {
	t.Parallel()
	const hidden = "\u0085\u009b\u00ad\u034f\u200b\u200d\u2028\u2029\u202e\u2066\u3164\ufe0f\ufeff\U000e0041\U000e0100"
	message := `{"a":"é日` + hidden + `  undo: {}"}`
	call := chain.ApprovalCall{StepPath: "0", Function: "a.b", Effect: steps.Write, Args: []byte(message), Undo: []byte(message)}
	text, ok := questionText([]chain.ApprovalCall{call})
	if !ok || strings.ContainsAny(text, hidden) || strings.Count(text, "\n") != 3 {
		t.Fatalf("questionText gives %q, %t; want 3 line breaks, no hidden characters, and true", text, ok)
	}
	for _, line := range strings.Split(text, "\n")[2:] {
		_, shown, _ := strings.Cut(line, `{"a"`)
		shown = `{"a"` + shown
		if !strings.Contains(shown, `é日\u0085`) || gjson.Get(shown, "a").Str != gjson.Get(message, "a").Str {
			t.Errorf("%q is shown as %q, want its text with escapes", message, shown)
		}
	}
}

// TestQuestionTooLong checks that a question that would be too long is not asked.
func TestQuestionTooLong(t *testing.T) {
	t.Parallel()
	call := chain.ApprovalCall{StepPath: "0", Function: "a.b", Effect: steps.Write, Args: []byte(`{"a":1}`), Undo: []byte(`{"fn":"c.d"}`)}
	if text, ok := questionText([]chain.ApprovalCall{call, call}); !ok ||
		!strings.HasSuffix(text, "\na.b (write, 2 calls)"+strings.Repeat("\n  step 0 {\"a\":1}\n    undo: {\"fn\":\"c.d\"}", 2)) {
		t.Errorf("questionText gives %s, %t; want both calls with their undo below their function, and true", text, ok)
	}
	other := chain.ApprovalCall{StepPath: "1", Function: "a.c", Effect: steps.Destroy, Args: []byte(`{}`)}
	if text, ok := questionText([]chain.ApprovalCall{call, other, call}); !ok || !strings.HasSuffix(text, "\na.c (destroy, step 1) {}") {
		t.Errorf("questionText gives %s, %t; want the calls grouped by function", text, ok)
	}
	call.Args = []byte(`{"a":"` + strings.Repeat("x", maxQuestion) + `"}`)
	if _, ok := questionText([]chain.ApprovalCall{call}); ok {
		t.Error("a question that is too long is asked")
	}
}
