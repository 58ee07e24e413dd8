package openapi

import (
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestServersOfDocuments: calls with credentials go to no server that only the document names; other calls go where the document says.
func TestServersOfDocuments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		base, spec string // the URLs in the configuration; "": it has no base, its document is a file
		servers    []string
		signs      bool
		want       string // the server that is called; "": none
		refused    string
	}{
		{"a file", "", "", []string{"http://plain.example/v1"}, false, "http://plain.example/v1", ""},
		{"a file, signed", "", "", []string{"http://plain.example/v1", "https://safe.example/v1"}, true, "", "https://safe.example/v1"},
		{"no server that can be called", "", "", []string{"ftp://x", "/v1"}, true, "", ""},
		{"the configured one", "https://api.example/v2", "", []string{"https://evil.example"}, true, "https://api.example/v2", ""},
		{"where the document is", "", "https://api.example/openapi.json", []string{"/v1"}, true, "https://api.example/v1", ""},
		{"where the document is, in another spelling", "", "https://api.example/openapi.json", []string{"https://API.example:443/v1"}, true,
			"https://API.example:443/v1", ""},
		{"the second", "", "https://api.example/openapi.json", []string{"https://evil.example", "https://api.example/v1"}, true,
			"https://api.example/v1", "https://evil.example"},
		{"another host", "", "https://api.example/openapi.json", []string{"https://api.example.evil"}, true, "", "https://api.example.evil"},
		{"another port", "", "https://api.example/openapi.json", []string{"https://api.example:8443"}, true, "", "https://api.example:8443"},
		{"no TLS", "", "https://api.example/openapi.json", []string{"http://api.example"}, true, "", "http://api.example"},
		{"no TLS, as the document", "", "http://api.example/openapi.json", []string{"http://api.example/v1"}, true, "http://api.example/v1", ""},
		{"unsigned", "", "https://api.example/openapi.json", []string{"https://other.example"}, false, "https://other.example", ""},
	} {
		s := &Source{}
		if test.base != "" {
			s.base, _ = url.Parse(test.base)
		}
		if test.spec != "" {
			s.spec, _ = url.Parse(test.spec)
		}
		service, refused := s.serviceOf(&operation{servers: test.servers}, test.signs)
		if got := shownURL(service); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
		if got := shownURL(refused); got != test.refused {
			t.Errorf("%s: got refused %q, want %q", test.name, got, test.refused)
		}
	}
}

// TestDocumentChanges: a changed document replaces the functions, at Refresh or within five minutes. If the document can no longer be
// loaded, the functions stay, with one warning.
func TestDocumentChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const changed = `openapi: 3.0.0
info: {title: Pets, version: "3"}
servers: [{url: "https://pets.example.com"}]
paths: {/owners: {get: {responses: {"200": {description: ok}}}}}
`
		var warnings []string
		s, p := publish(t, Options{Warn: func(f *fault.Error) { warnings = append(warnings, f.Error()) }},
			respond(200, petsDocument("")), respond(200, changed), respond(404, ""), respond(200, "<html>"), respond(200, changed),
			respond(200, petsDocument("")))
		defer s.Close()
		var changes atomic.Int64
		s.Watch(func() { changes.Add(1) })
		step := func(wait time.Duration, fetched int64, functions int, reported int64) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			if status := s.Status(); status.State != steps.StateReady || status.Error != nil || len(s.Functions()) != functions ||
				p.fetched.Load() != fetched || changes.Load() != reported {
				t.Errorf("got %+v, %d functions after %d attempts and %d changes, want ready, %d, %d and %d", status, len(s.Functions()), p.fetched.Load(), changes.Load(), functions, fetched, reported)
			}
		}
		step(time.Second, 1, 4, 1)
		s.Refresh()
		step(time.Second, 2, 1, 2)
		step(lastRetry, 3, 1, 2) // gone
		step(lastRetry, 4, 1, 2)
		step(lastRetry, 5, 1, 2) // the original document again
		step(lastRetry, 6, 4, 3)
		if len(warnings) != 1 || !strings.Contains(warnings[0], "cannot be loaded again") || !strings.Contains(warnings[0], "404") {
			t.Errorf("got warnings %q, want one", warnings)
		}
	})
}

func TestStartTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := publish(t, Options{}, ignoreContext)
		defer s.Close()
		reported := 0
		s.Watch(func() { reported++ })
		time.Sleep(defaultStartTimeout + time.Second)
		synctest.Wait()
		if status := s.Status(); status.State != steps.StateRetrying || status.Error.Code != fault.Timeout || reported != 1 {
			t.Errorf("got %+v after %d reports, want a timeout after 1", status, reported)
		}
		_ = s.Close()
		time.Sleep(2 * time.Hour)
	})
}
