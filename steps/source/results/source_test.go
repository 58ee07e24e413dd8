package results_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	"github.com/onecall-mcp/onecall/steps/source/results"
	"github.com/onecall-mcp/onecall/steps/stepstest"
)

// withStore is a source whose calls have a store with one value, as a run gives them.
type withStore struct{ *results.Source }

func (s withStore) Functions() []steps.Function {
	functions := s.Source.Functions()
	for i := range functions {
		call := functions[i].Call
		functions[i].Call = func(ctx context.Context, args []byte) ([]byte, error) {
			return call(steps.WithCallbacks(ctx, &steps.Callbacks{Kept: kept}), args)
		}
	}
	return functions
}

func kept(_ context.Context, token string) ([]byte, error) {
	switch {
	case token == steps.BlockHandle+"7":
		return []byte(`{"type":"image","mimeType":"image/png","size":4,"data":"iVBORw=="}`), nil
	case token != "oc1_7":
		return nil, fault.New(fault.TokenExpired, "expired")
	}
	return []byte(`{"items":[1,2]}`), nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	stepstest.Run(t, stepstest.Options{
		New:   func(*testing.T) steps.Source { return withStore{results.New()} },
		Args:  map[string]string{"result.get": `{"token":"oc1_7"}`},
		Fails: map[string][]string{"result.get": {`{"token":""}`, `{"token":"oc1_8"}`}},
	})
}

func TestGet(t *testing.T) {
	t.Parallel()
	get := results.New().Functions()[0].Call
	store := steps.WithCallbacks(t.Context(), &steps.Callbacks{Kept: kept})
	for _, test := range []struct {
		name, args string
		ctx        context.Context
		code       fault.Code
		at         string
	}{
		{"unknown", `{"token":"oc1_8"}`, store, fault.TokenExpired, "/token"},
		{"without a token", `{}`, store, fault.BadArguments, ""},
		{"with more", `{"token":"oc1_7","mode":"full"}`, store, fault.BadArguments, ""},
		{"without a store", `{"token":"oc1_7"}`, t.Context(), fault.NotSupported, ""},
	} {
		result, err := get(test.ctx, []byte(test.args))
		if f, ok := fault.As(err); !ok || f.Code != test.code || f.At != test.at || strings.Contains(f.Message, "continuation_token") {
			t.Errorf("%s: %s, %v", test.name, result, err)
		}
	}
}

// TestBlock: a kept block is one again, with a handle of the run that gets it.
func TestBlock(t *testing.T) {
	t.Parallel()
	blocks := &steps.Blocks{}
	ctx := steps.WithCallbacks(t.Context(), &steps.Callbacks{Kept: kept, Blocks: blocks})
	value, err := results.New().Functions()[0].Call(ctx, []byte(`{"token":"`+steps.BlockHandle+`7"}`))
	want := `{"type":"image","mimeType":"image/png","size":4,"data":"` + steps.Digest([]byte("\x89PNG")) + `"}`
	if got := string(blocks.Digests(value)); got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
