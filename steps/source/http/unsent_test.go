package http_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
	httpsource "github.com/onecall-mcp/onecall/steps/source/http"
)

// TestRefusedCallsAreNotSent: a call that is rejected before anything is sent has the outcome not_sent.
func TestRefusedCallsAreNotSent(t *testing.T) {
	t.Parallel()
	s := open(t, &httpsource.Options{Allow: []string{"https://a.example", "http://127.0.0.2:1"}})
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
		_, err := configuredEntry(t, s, test.settings, test.fn).Call(t.Context(), json.RawMessage(test.args))
		if f, _ := fault.As(err); f == nil || f.Code != test.code || f.Outcome != test.outcome {
			t.Errorf("%s %s: %+v, want %s %q", test.fn, test.args, f, test.code, test.outcome)
		}
	}
}

// TestConfiguredWrites: a function that the configuration declares a write is sent once, whatever its method and its source say, and has
// the outcome of a write.
func TestConfiguredWrites(t *testing.T) {
	t.Parallel()
	breaks := func(w http.ResponseWriter) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err != nil {
			t.Error(err)
		} else {
			_ = conn.Close()
		}
	}
	unavailable := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for name, test := range map[string]struct {
		fn, args   string
		answer     func(w http.ResponseWriter) // answers all requests but the first
		asRead     bool                        // no settings change the effect that the source declares
		sent       int32                       // the requests that the second call sends
		isRepeated bool                        // the second call sends more than one request
		outcome    fault.Outcome
	}{
		"read is repeated":               {fn: "http.get", answer: unavailable, asRead: true, isRepeated: true},
		"503":                            {fn: "http.get", answer: unavailable, sent: 1, outcome: fault.SentUnknown},
		"endpoint that reads":            {fn: "http.find", answer: unavailable, sent: 1, outcome: fault.SentUnknown},
		"endpoint that declares a read":  {fn: "http.find", answer: unavailable, asRead: true, isRepeated: true},
		"endpoint that declares a write": {fn: "http.trigger", answer: unavailable, asRead: true, sent: 1, outcome: fault.SentUnknown},
		"endpoint that may be repeated":  {fn: "http.again", answer: unavailable, asRead: true, isRepeated: true, outcome: fault.SentUnknown},
		"broken connection":              {fn: "http.get", answer: breaks, sent: 1, outcome: fault.SentUnknown},
		"large answer": {fn: "http.get", answer: func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 2000)) }, sent: 1,
			outcome: fault.Applied},
		"not modified": {fn: "http.get", answer: func(w http.ResponseWriter) {
			w.Header().Set("Etag", `"b"`)
			w.WriteHeader(http.StatusNotModified)
		}, sent: 1, outcome: fault.Applied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.outcome != "" && r.Header.Get("If-None-Match") != "" || r.Method == http.MethodGet && r.ContentLength != 0 {
					t.Errorf("got %s with a body of %d bytes and header %v, want no body of a GET, and If-None-Match only of a read", r.Method, r.ContentLength, r.Header)
				}
				if sent.Add(1) > 1 {
					test.answer(w)
					return
				}
				w.Header().Set("Etag", `"a"`)
				_, _ = w.Write([]byte("{}"))
			}))
			defer server.Close()
			s := open(t, &httpsource.Options{Allow: []string{server.URL}, MaxBodyBytes: 1000, Endpoints: []httpsource.Endpoint{
				{Name: "find", URL: server.URL, Method: http.MethodPost, Effect: "read"},
				{Name: "trigger", URL: server.URL, Method: http.MethodGet, Effect: "write"},
				{Name: "again", URL: server.URL, Method: http.MethodGet, Effect: "write", Idempotent: true}}})
			write := steps.Write
			settings, _ := steps.NewSettings([]steps.Setting{{Pattern: "http.*", Effect: &write}})
			if test.asRead {
				settings = nil
			}
			entry := configuredEntry(t, s, settings, test.fn)
			args := json.RawMessage(`{}`)
			if test.fn == "http.get" {
				args = json.RawMessage(`{"url":"` + server.URL + `/"}`)
			}
			if _, err := entry.Call(t.Context(), args); err != nil {
				t.Fatal(err)
			}
			_, err := entry.Call(t.Context(), args)
			if n := sent.Load() - 1; test.isRepeated != (n > 1) || !test.isRepeated && n != test.sent {
				t.Errorf("got %d requests, want %d, or more if repeated %t", n, test.sent, test.isRepeated)
			}
			got := fault.OutcomeOf(err)
			if f, _ := fault.As(err); f != nil {
				got = f.Outcome
			}
			if got != test.outcome {
				t.Errorf("got outcome %q of %v, want %q", got, err, test.outcome)
			}
		})
	}
}

// configuredEntry returns the function with this name after the settings; nil leaves it as its source declares it.
func configuredEntry(t *testing.T, s *httpsource.Source, settings *steps.Settings, name string) *steps.Entry {
	t.Helper()
	var list []steps.Function
	for _, fn := range s.Functions() {
		fn, _ = settings.Apply(fn)
		list = append(list, fn)
	}
	r, err := steps.NewRegistry(list, nil)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := r.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}
