package replay

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestWhatIsNotRecorded: secrets that a result repeats, and calls that the client cancelled.
func TestWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	r := NewRecorder(&tape)
	spec := &steps.Spec{
		Name:   "http.get",
		Redact: func([]byte) []byte { return []byte(`{"token":"[redacted]"}`) },
		RedactResult: func(_, result []byte) []byte {
			return bytes.ReplaceAll(result, []byte("hunter22"), []byte("[redacted]"))
		},
	}
	ctx := context.Background()
	r.Observe(ctx, spec, []byte(`{"token":"hunter22"}`), []byte(`{"you sent":"hunter22"}`), nil)
	r.Observe(ctx, spec, []byte(`{}`), nil, fault.New(fault.Cancelled, "the client cancelled"))
	r.Observe(ctx, spec, []byte(`{}`), nil, fault.New(fault.Timeout, "too slow"))
	want := `{"fn":"http.get","args":{"token":"[redacted]"},"result":{"you sent":"[redacted]"}}` + "\n" +
		`{"fn":"http.get","args":{"token":"[redacted]"},"error":{"code":"timeout","message":"too slow"}}` + "\n"
	if tape.String() != want || r.Err() != nil {
		t.Errorf("recorded\n%swant\n%s%v", strings.TrimSpace(tape.String()), want, r.Err())
	}
}
