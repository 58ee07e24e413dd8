package exprs_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
	"github.com/onecall-mcp/onecall/steps/source/exprs"
)

// TestHostileText: small requests to text.* stay within the bounds, even in one match, and fail with a code.
func TestHostileText(t *testing.T) { //nolint:paralleltest // it measures what the process allocates
	for name, test := range map[string]struct{ fn, text, pattern, with string }{
		"a long match many times":    {"text.replace", strings.Repeat("a", 200_000), "a*", strings.Repeat(`\0`, 10_000)},
		"escapes":                    {"text.replace", strings.Repeat("\x01", 1<<20), `(?s).*`, strings.Repeat(`\0`, 100)},
		"many groups":                {"text.replace", "a", "a", strings.Repeat(`\0`, 2_000_000)},
		"a match in every group":     {"text.match", strings.Repeat("a", 1<<20), strings.Repeat("(", 200) + "a*" + strings.Repeat(")", 200), ""},
		"a match in every name":      {"text.match", strings.Repeat("a", 1<<20), namedGroups(70), ""},
		"a long literal every match": {"text.replace", strings.Repeat("a", 50_000), "a", strings.Repeat("b", 1<<20)},
	} {
		args := map[string]string{"text": test.text, "pattern": test.pattern}
		if test.fn == "text.replace" {
			args["with"] = test.with
		}
		raw, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = invoke(t.Context(), exprs.New(), test.fn, string(raw))
		runtime.ReadMemStats(&after)
		if fault.CodeOf(err) != fault.LimitExceeded {
			t.Errorf("%s: %v, want %s", name, err, fault.LimitExceeded)
		}
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 400 {
			t.Errorf("%s: %d MiB were allocated, want at most 400", name, mib)
		} else {
			t.Logf("%s: %d MiB: %v", name, mib, err)
		}
	}
}

func namedGroups(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(?P<g%d>", i)
	}
	return b.String() + "a*" + strings.Repeat(")", n)
}

// tally is the memory of a request (admit.Request), limit bytes; maximum is the most that was held.
type tally struct{ limit, held, maximum int }

func (m *tally) HoldWork(n int) error {
	if m.held+n > m.limit {
		return fault.New(fault.LimitExceeded, "%d bytes", m.held+n)
	}
	m.held += n
	m.maximum = max(m.maximum, m.held)
	return nil
}

// TestResultCountsAsHeld: a result is counted while it is written, ends at the memory bound, and is always released.
func TestResultCountsAsHeld(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", 10_000)
	for name, args := range map[string]string{
		"text.replace": fmt.Sprintf(`{"text":%q,"pattern":"a","with":%q}`, text, strings.Repeat(`\0`, 1000)),
		"text.match":   fmt.Sprintf(`{"text":%q,"pattern":%q,"all":true}`, text, "a"+strings.Repeat("()", 300)),
	} {
		m := &tally{limit: 64 << 20}
		got, err := invoke(admit.WithRequest(t.Context(), &admit.Request{Memory: m}), exprs.New(), name, args)
		if err != nil || m.maximum < len(got)-(64<<10) || m.held != 0 {
			t.Errorf("%s: a result of %d bytes held at most %d, and %d afterwards, want about its size, and 0: %v", name, len(got), m.maximum, m.held, err)
		}
		m = &tally{limit: 4 << 20}
		_, err = invoke(admit.WithRequest(t.Context(), &admit.Request{Memory: m}), exprs.New(), name, args)
		if f, ok := fault.As(err); !ok || f.Code != fault.LimitExceeded || m.held != 0 {
			t.Errorf("%s: got %d held afterwards and %v, want 0 and limit_exceeded", name, m.held, err)
		}
	}
}
