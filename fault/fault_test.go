package fault_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// TestTable: each constant has exactly one row in the table, and all statuses mean failure.
func TestTable(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []fault.Code
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if id, ok := spec.Type.(*ast.Ident); ok && id.Name == "Code" {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				constants = append(constants, fault.Code(text))
			}
		}
		return true
	})
	if !slices.Equal(constants, fault.Codes()) {
		t.Errorf("Codes() = %q, want the constants %q", fault.Codes(), constants)
	}
	for _, c := range constants {
		if c.Exit() < 1 || c.HTTP() < 400 || c.HTTP() > 599 || c.Help() == "" {
			t.Errorf("%s: Exit() = %d, HTTP() = %d, Help() = %q; want at least 1, 400 to 599, and a text", c, c.Exit(), c.HTTP(), c.Help())
		}
		if len(c.Causes()) == 0 || c.Remedy() == "" {
			t.Errorf("%s has causes %q and remedy %q, want both", c, c.Causes(), c.Remedy())
		}
	}
}

func TestUnknownCode(t *testing.T) {
	t.Parallel()
	if c := fault.Code("none"); c.Exit() != 1 || c.HTTP() != 500 || c.Retryable() || c.Help()+c.Remedy() != "" || c.Causes() != nil ||
		fault.OutcomeOf(fault.New(c, "x")) != fault.Failed {
		t.Errorf("unknown code: exit %d, HTTP %d, retryable %t; want 1, 500, false, no help, remedy or causes, and a failed outcome", c.Exit(), c.HTTP(), c.Retryable())
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	f := fault.New(fault.Timeout, "after %d ms", 3)
	f.Err, f.At = cause, "/x"
	under := f.Under("/steps/1")
	if under.Error() != "timeout at /steps/1/x: after 3 ms" || f.At != "/x" {
		t.Errorf("Under = %v, want timeout at /steps/1/x: after 3 ms; At of the original = %q, want /x", under, f.At)
	}
	wrapped := fmt.Errorf("wrapped: %w", under)
	if got, ok := fault.As(wrapped); !ok || got != under || !errors.Is(wrapped, cause) {
		t.Errorf("As = %v, %t; want %v, true, and an error that wraps the cause", got, ok, under)
	}
	if fault.CodeOf(wrapped) != fault.Timeout || fault.CodeOf(cause) != fault.Internal || fault.CodeOf(nil) != "" {
		t.Errorf("CodeOf = %q, %q, %q; want timeout, internal and none", fault.CodeOf(wrapped), fault.CodeOf(cause), fault.CodeOf(nil))
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		word, names, want string
		n                 int
	}{
		{"retrun", "return steps repeat", "return", 1},
		{"maxTokens", "maxSteps maxTotalTokens", "maxTotalTokens", 1},
		{"symbol_search", "symbolSearch fs.grep", "symbolSearch", 3},
		{"grep", "fs.find fs.grep", "fs.grep", 3},
		{"x", "return steps", "", 3},
		{"crad", "card", "card", 1},
		{"state.set", "http.get test.get", "", 3},
		{"", "a b", "", 3},
		{strings.Repeat("a", 1000), "aaaa", "", 1},
	} {
		if got := strings.Join(fault.Nearest(test.word, strings.Fields(test.names), test.n), " "); got != test.want {
			t.Errorf("Nearest(%.20q, %s) = %q, want %q", test.word, test.names, got, test.want)
		}
	}
}

func TestPointer(t *testing.T) {
	t.Parallel()
	if got := fault.Index(fault.Key(fault.Key("", "a/b"), "m~n"), 3); got != "/a~1b/m~0n/3" {
		t.Errorf("pointer = %q, want /a~1b/m~0n/3", got)
	}
}

// TestNearestOfMany: the nearest of many names is found, although only similar names are compared letter by letter.
func TestNearestOfMany(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 30_000 {
		names = append(names, fmt.Sprintf("net.device%d.read_%d", i%97, i))
	}
	names[9_000] = "shop.Orders.list-open"
	if near := fault.Nearest("shop.order.list_open", names, 1); len(near) != 1 || near[0] != names[9_000] {
		t.Errorf("Nearest = %q, want only %q", near, names[9_000])
	}
	alike := fault.Alike("shop.order.list_open", names, 2)
	if len(alike) != 2 || alike[0] != names[9_000] {
		t.Errorf("Alike = %q, want two names, first %q", alike, names[9_000])
	}
}
