package refs

import (
	"testing"

	"github.com/onecall-mcp/onecall/fault"
)

// scope returns the scope of step 3 of 5, with all names in scope.
func scope() CompileScope {
	return CompileScope{At: "/args", Step: 3, Steps: 5, IDs: map[string]int{"search": 1, "later": 4, "self": 3}, Item: true, Result: true}
}

// scopeOf returns a scope with the results of steps 0, 1, 2.
func scopeOf(results ...string) *Scope {
	s := &Scope{Input: []byte(`{"limit":3}`), Item: []byte(`{"id":"i1"}`), Index: 2, Result: []byte(`{"done":true}`)}
	for _, r := range results {
		s.Steps = append(s.Steps, StepResult{Raw: []byte(r), Status: "ok"})
	}
	return s
}

func compileExpression(tb testing.TB, source string) *Expression {
	tb.Helper()
	x, faults := CompileExpression(source, scope())
	if len(faults) > 0 {
		tb.Fatalf("%s: %v", source, faults[0])
	}
	return x
}

// wantCode fails the test unless err carries the code.
func wantCode(tb testing.TB, err error, code fault.Code) *fault.Error {
	tb.Helper()
	e, ok := fault.As(err)
	if !ok || e.Code != code {
		tb.Fatalf("got error %v, want code %s", err, code)
	}
	return e
}

// orders is the result that the tests of expressions read.
const orders = `{"items":[{"id":717897987691852588770249,"size":3,"price":1.10,"z":1,"a":2},{"size":20,"a":[1,2],` +
	`"esc":"\u00e9\/"},{"size":20,"nul":null}],` +
	`"total":5,"name":"bo\"b","nul":null,"flag":true,"empty":[],"keys":{"z":1,"a":{"q":1.50},"m":3}}`

// fataler has the common methods of testing.TB and rapid.T that are used here.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// must fails a test whose setup failed.
func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
