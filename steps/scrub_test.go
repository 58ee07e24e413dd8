package steps_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/steps"
)

func TestScrubbedCalls(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2hunter"
	fn := steps.Function{Spec: steps.Spec{Name: "a.echo"}, Call: func(ctx context.Context, args []byte) ([]byte, error) {
		steps.CallbacksOf(ctx).Progress(ctx, 1, 2, "with "+hidden)
		steps.CallbacksOf(ctx).Log(ctx, "info", hidden, []byte(`{"s":"`+hidden+`"}`))
		if _, err := steps.CallbacksOf(ctx).Keep(ctx, []byte(`{"uri":"https://a/?k=`+hidden+`"}`)); err != nil {
			t.Error(err)
		}
		if string(args) == `{"fail":true}` {
			f := fault.New(fault.FunctionFailed, "401 for %s", hidden)
			f.Body = []byte(`{"token":"hunter2hunter"}`)
			return nil, f
		}
		return args, nil
	}}
	r, err := steps.NewRegistry([]steps.Function{fn}, &steps.RegistryOptions{Scrubber: secret.New([]string{hidden})})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Resolve("a.echo")
	var reports []string
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{
		Progress: func(_ context.Context, _, _ float64, message string) { reports = append(reports, message) },
		Log: func(_ context.Context, _, logger string, data []byte) {
			reports = append(reports, logger, string(data))
		},
		Keep: func(_ context.Context, value []byte) (string, error) {
			reports = append(reports, string(value))
			return "", nil
		},
	})
	got, err := entry.Call(ctx, []byte(`{"s":"hunter2hunter"}`))
	if err != nil || string(got) != `{"s":"[redacted]"}` || string(entry.Shown([]byte(`{"s":"hunter2hunter"}`))) != `{"s":"[redacted]"}` {
		t.Errorf("the result is not redacted: %s, %v", got, err)
	}
	_, err = entry.Call(ctx, []byte(`{"fail":true}`))
	if f, _ := fault.As(err); f == nil || f.Message != "401 for [redacted]" || string(f.Body) != `{"token":"[redacted]"}` {
		t.Errorf("the error is not redacted: %v", err)
	}
	if all := strings.Join(reports, " "); len(reports) != 8 || strings.Contains(all, hidden) {
		t.Errorf("got reports %s, want 8 without the secret", all)
	}
}

// TestScrubbedBlocks: the bytes of a block have no secret where a result would have none, in a run and without one.
func TestScrubbedBlocks(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2hunter"
	fn := steps.Function{Spec: steps.Spec{Name: "a.file"}, Call: func(ctx context.Context, args []byte) ([]byte, error) {
		return steps.KeepBlock(ctx, &steps.Block{Type: "resource", URI: "https://a/?k=" + hidden, Bytes: slices.Concat([]byte("\x00key="), args)})
	}}
	r, err := steps.NewRegistry([]steps.Function{fn}, &steps.RegistryOptions{Scrubber: secret.New([]string{hidden})})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := r.Resolve("a.file")
	for args, want := range map[string]string{
		`{"s":"` + hidden + `"}`:       "\x00key={\"s\":\"[redacted]\"}",
		`{"s":"aHVudGVyMmh1bnRlcg=="}`: "\x00key={\"s\":\"[redacted]\"}",
		`{"s":"hunter"}`:               "\x00key={\"s\":\"hunter\"}",
	} {
		blocks := &steps.Blocks{}
		got, err := entry.Call(steps.WithCallbacks(t.Context(), &steps.Callbacks{Blocks: blocks}), []byte(args))
		if err != nil {
			t.Fatal(err)
		}
		within := blocks.Within(got)
		if len(within) != 1 || string(within[0].Bytes) != want || within[0].URI != "https://a/?k=[redacted]" ||
			gjson.GetBytes(got, "size").Int() != int64(len(want)) {
			t.Errorf("%s gives %s with %q, want %q", args, got, within[0].Bytes, want)
		}
		got, err = entry.Call(t.Context(), []byte(args))
		leaks := strings.Contains(string(got), hidden) || strings.Contains(string(got), "aHVudGVy") && strings.Contains(want, "redacted")
		if err != nil || leaks {
			t.Errorf("without a run, %s gives %s, %v", args, got, err)
		}
	}
}

// TestSecretDefaults: a default argument that is a configuration secret appears in no schema and no signature.
func TestSecretDefaults(t *testing.T) {
	t.Parallel()
	const hidden = "hunter2hunter"
	var called []byte
	call := func(_ context.Context, args []byte) ([]byte, error) {
		called = slices.Clone(args)
		return []byte("1"), nil
	}
	r, err := steps.NewRegistry([]steps.Function{{Spec: steps.Spec{Name: "a.b", Input: []byte(`{"properties":{"key":{"type":"string"}}}`),
		Defaults: []byte(`{"key":"` + hidden + `"}`)}, Call: call}}, &steps.RegistryOptions{Scrubber: secret.New([]string{hidden})})
	if err != nil {
		t.Fatal(err)
	}
	entry := r.All()[0]
	if shown := string(entry.Spec().Input) + entry.Signature(); strings.Contains(shown, hidden) || !strings.Contains(shown, "[redacted]") {
		t.Errorf("got %s, want [redacted] for the secret", shown)
	}
	if _, err := entry.Call(t.Context(), nil); err != nil || string(called) != `{"key":"`+hidden+`"}` {
		t.Errorf("the call got arguments %s, %v, want the secret as key", called, err)
	}
}
