package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestLines(t *testing.T) {
	t.Parallel()
	read := steps.Spec{Name: "s.read", Effect: steps.Read, EffectDeclared: true}
	tests := []struct {
		name   string
		ctx    context.Context
		spec   steps.Spec
		args   string
		result string
		err    error
		want   string
	}{
		{"a write", t.Context(), steps.Spec{Name: "s.f"}, `{"b":1.10,"a":"\u00e9"}`, `{"z":717897987691852588770249}`, nil,
			`{"fn":"s.f","args":{"b":1.10,"a":"\u00e9"},"result":{"z":717897987691852588770249}}`},
		{"a declared read", t.Context(), read, `{}`, `null`, nil, `{"fn":"s.read","args":{},"result":null,"effect":"read"}`},
		{"an assumed read", t.Context(), steps.Spec{Name: "s.f", Effect: steps.Read}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a declared write", t.Context(), steps.Spec{Name: "s.f", EffectDeclared: true}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a declared destruction", t.Context(), steps.Spec{Name: "s.f", Effect: steps.Destroy, EffectDeclared: true}, `{}`, `1`, nil,
			`{"fn":"s.f","args":{},"result":1,"effect":"destroy"}`},
		{"of a chain", WithChain(t.Context(), `<a> "b"`), steps.Spec{Name: "s.f"}, `{}`, `"<>&"`, nil,
			`{"fn":"s.f","args":{},"result":"<>&","chain":"<a> \"b\""}`},
		{"of no chain", WithChain(t.Context(), ""), steps.Spec{Name: "s.f"}, `{}`, `1`, nil, `{"fn":"s.f","args":{},"result":1}`},
		{"a coded error", t.Context(), steps.Spec{Name: "s.f"}, `{}`, ``, fmt.Errorf("wrapped: %w", &fault.Error{Code: fault.Busy, Message: "x\ny"}),
			`{"fn":"s.f","args":{},"error":{"code":"busy","message":"x\ny"}}`},
		{"redacted", t.Context(), steps.Spec{Name: "s.f", Redact: func([]byte) []byte { return []byte(`{"key":"-"}`) }}, `{"key":"topsecret"}`, `1`, nil,
			`{"fn":"s.f","args":{"key":"-"},"result":1}`},
		{"a result that repeats a secret", t.Context(), steps.Spec{Name: "s.f", Redact: func([]byte) []byte { return []byte(`{"key":"-"}`) },
			RedactResult: func(args, result []byte) []byte {
				return bytes.ReplaceAll(result, []byte(gjson.GetBytes(args, "key").Str), []byte("-"))
			}}, `{"key":"topsecret"}`, `"got topsecret"`, nil,
			`{"fn":"s.f","args":{"key":"-"},"result":"got -"}`},
	}
	for _, test := range tests {
		var file bytes.Buffer
		recorder := NewRecorder(&file)
		recorder.Observe(test.ctx, &test.spec, []byte(test.args), []byte(test.result), test.err)
		if file.String() != test.want+"\n" || recorder.Err() != nil {
			t.Errorf("%s:\ngot  %swant %s\n%v", test.name, file.String(), test.want, recorder.Err())
		}
	}
}

// full takes some writes whole, one half, and then fails.
type full struct {
	bytes.Buffer
	room int
}

var errFull = errors.New("no space left")

func (f *full) Write(p []byte) (int, error) {
	if f.room--; f.room < 0 {
		f.Buffer.Write(p[:len(p)/2])
		return len(p) / 2, errFull
	}
	return f.Buffer.Write(p)
}

// answering makes a registry of one function, s.f.
func answering(t testing.TB, call steps.Call) *steps.Registry {
	t.Helper()
	registry, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "s.f"}, Call: call}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

// TestAbandonedCalls has a function that does not heed its deadline: the recording says what the caller was told.
func TestAbandonedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		recorder := NewRecorder(&file)
		recorded := answering(t, func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Minute)
			return []byte(`"late"`), nil
		}).Observe(recorder.Observe)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := ask(ctx, recorded, "s.f", `{}`)
		time.Sleep(2 * time.Minute)
		if !strings.HasPrefix(got, "timeout: ") || strings.Count(file.String(), "\n") != 1 {
			t.Fatalf("the caller got %s, recorded is\n%s", got, file.String())
		}
		c, err := Read(&file, "x")
		if err != nil {
			t.Fatal(err)
		}
		if again := ask(c.Cursor(t.Context(), ""), mustRegistry(t, c, recorded), "s.f", `{}`); again != got {
			t.Errorf("the replay gives %s, want %s", again, got)
		}
	})
}

func TestAnswersStandWhenWritingFails(t *testing.T) {
	t.Parallel()
	file := &full{room: 2}
	recorder := NewRecorder(file)
	original := answering(t, func(context.Context, []byte) ([]byte, error) { return []byte(`1`), nil })
	recorded := original.Observe(recorder.Observe)
	for range 5 {
		if got := ask(t.Context(), recorded, "s.f", `{}`); got != "1" {
			t.Errorf("got %s", got)
		}
	}
	if !errors.Is(recorder.Err(), errFull) {
		t.Errorf("the error is %v", recorder.Err())
	}
	const whole = `{"fn":"s.f","args":{},"result":1}` + "\n"
	if want := whole + whole + whole[:len(whole)/2]; file.String() != want {
		t.Errorf("got\n%s\nwant\n%s", file.String(), want)
	}
	if _, err := Read(&file.Buffer, "x"); fault.CodeOf(err) != fault.BadJSON || !strings.Contains(err.Error(), "not written to its end") {
		t.Errorf("reading it: %v", err)
	}
}

func TestConcurrentRecording(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	recorder := NewRecorder(&file)
	recorded := answering(t, func(_ context.Context, args []byte) ([]byte, error) { return args, nil }).Observe(recorder.Observe)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				args := fmt.Sprintf(`{"i":%d,"n":%d}`, i, n)
				if got := ask(t.Context(), recorded, "s.f", args); got != args {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	c, err := Read(&file, "x")
	if err != nil || len(c.functions[0].calls) != 800 {
		t.Fatalf("%v, %v", c, err)
	}
}
