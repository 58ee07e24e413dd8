package replay

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestWhatIsNotRecorded: secrets that an answer repeats, and calls that the client cancelled.
func TestWhatIsNotRecorded(t *testing.T) {
	t.Parallel()
	var tape bytes.Buffer
	r := NewRecorder(&tape, nil)
	spec := &steps.Spec{Name: "http.get", Redact: hide}
	r.Observe(t.Context(), spec, []byte(`{"key":"hunter22"}`), []byte(`{"you sent":"hunter22"}`), nil)
	r.Observe(t.Context(), spec, []byte(`{}`), nil, fault.New(fault.Cancelled, "the client cancelled"))
	r.Observe(t.Context(), spec, []byte(`{"key":"hunter22"}`), nil, &fault.Error{Code: fault.Denied, Message: "not hunter22", Body: []byte(`["hunter22"]`)})
	if text := tape.String(); strings.Contains(text, "hunter22") || strings.Count(text, "\n") != 3 || r.Err() != nil {
		t.Errorf("recorded\n%s%v", text, r.Err())
	}
}
