package httpcall

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRefusedCallsAreNotSent: what is refused before anything left is not_sent.
func TestRefusedCallsAreNotSent(t *testing.T) {
	t.Parallel()
	s, err := New(&Options{Allow: []string{"https://a.example", "http://127.0.0.2:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	write := steps.Write
	settings, _ := steps.NewSettings([]steps.Setting{{Pattern: "http.get", Effect: &write}})
	for _, test := range []struct {
		fn       string
		settings *steps.Settings
		args     string
		code     fault.Code
		outcome  fault.Outcome
	}{
		{"http.request", nil, `{"method":"POST","url":"https://b.example/"}`, fault.Denied, fault.NotSent},
		{"http.request", nil, `{"method":"POST","url":"no url"}`, fault.BadArguments, fault.NotSent},
		{"http.request", nil, `{"method":"POST","url":"https://a.example/","headers":{"Host":"b"}}`, fault.BadArguments, fault.NotSent},
		{"http.get", nil, `{"url":"https://b.example/"}`, fault.Denied, fault.NotSent},
		{"http.get", settings, `{"url":"https://b.example/"}`, fault.Denied, fault.NotSent},
	} {
		var list []steps.Function
		for _, fn := range s.Functions() {
			fn, _ = test.settings.Apply(fn)
			list = append(list, fn)
		}
		r, err := steps.NewRegistry(list, nil)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := r.Resolve(test.fn)
		if err != nil {
			t.Fatal(err)
		}
		_, err = entry.Call(t.Context(), json.RawMessage(test.args))
		if f, _ := fault.As(err); f == nil || f.Code != test.code || f.Outcome != test.outcome {
			t.Errorf("%s %s: %+v, want %s %q", test.fn, test.args, f, test.code, test.outcome)
		}
	}
}

// TestGetThatWrites: a GET that the configuration declares a write is not sent again by itself.
func TestGetThatWrites(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	s, err := New(&Options{Allow: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	write := steps.Write
	configured, _ := steps.NewSettings([]steps.Setting{{Pattern: "http.get", Effect: &write}})
	for _, test := range []struct {
		settings *steps.Settings
		once     bool
	}{{nil, false}, {configured, true}} {
		sent.Store(0)
		for _, fn := range s.Functions() {
			if fn, _ = test.settings.Apply(fn); fn.Name != "http.get" {
				continue
			}
			r, err := steps.NewRegistry([]steps.Function{fn}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = r.All()[0].Call(t.Context(), json.RawMessage(`{"url":"`+server.URL+`/"}`)); err == nil {
				t.Error("a 503 is a result")
			}
		}
		if n := sent.Load(); n == 0 || test.once != (n == 1) {
			t.Errorf("sent %d times, once: %v", n, test.once)
		}
	}
}

// TestGetThatWritesIsSentOnce: net/http sends a GET again when a kept connection breaks after it was sent, but not one that the
// configuration declares a write.
func TestGetThatWritesIsSentOnce(t *testing.T) {
	t.Parallel()
	var sent atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
			t.Errorf("a GET has a body: %d %q", r.ContentLength, r.TransferEncoding)
		}
		if sent.Add(1) == 1 {
			_, _ = w.Write([]byte("{}"))
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}))
	defer server.Close()
	s, err := New(&Options{Allow: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	write := steps.Write
	configured, _ := steps.NewSettings([]steps.Setting{{Pattern: "http.get", Effect: &write}})
	var list []steps.Function
	for _, fn := range s.Functions() {
		fn, _ = configured.Apply(fn)
		list = append(list, fn)
	}
	r, err := steps.NewRegistry(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	get, err := r.Resolve("http.get")
	if err != nil {
		t.Fatal(err)
	}
	args := json.RawMessage(`{"url":"` + server.URL + `/"}`)
	if _, err := get.Call(t.Context(), args); err != nil {
		t.Fatal(err)
	}
	_, err = get.Call(t.Context(), args)
	if n := sent.Load(); n != 2 || fault.OutcomeOf(err) != fault.SentUnknown {
		t.Errorf("%d requests for two calls, the second ended with %q: %v", n, fault.OutcomeOf(err), err)
	}
}
