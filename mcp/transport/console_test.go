package transport_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/mcp/transport"
	"github.com/onecall-mcp/onecall/steps"
)

// TestConsole: the console is served to the hosts and pages that MCP is served to, and what it streams ends when access changes.
func TestConsole(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	s := serve(t, func(o *transport.Options) {
		o.Console = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "the console")
			if strings.HasSuffix(r.URL.Path, "/events") {
				_ = http.NewResponseController(w).Flush()
				close(open)
				<-r.Context().Done()
			}
		})
	})
	access := &transport.Access{Anyone: steps.Caller{ID: "anyone"}, URL: "https://tools.example.com/mcp"}
	url := strings.TrimSuffix(s.serveAs(t, access), transport.Path) + transport.ConsolePath
	send := func(method, url string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	for name, test := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"this machine":              {func(*http.Request) {}, 200},
		"its own name":              {func(r *http.Request) { r.Host = "tools.example.com" }, 200},
		"its own page":              {func(r *http.Request) { r.Header.Set("Origin", "https://tools.example.com") }, 200},
		"a name of another's":       {func(r *http.Request) { r.Host = "rebound.example.org" }, 403},
		"a page of another's":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.org") }, 403},
		"a page from a file":        {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		"a token in the address":    {func(r *http.Request) { r.URL.RawQuery = "token=oc_x" }, 400},
		"the name with a port more": {func(r *http.Request) { r.Host = "tools.example.com:1" }, 403},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if status, body := send(method, url, test.change); status != test.want || (body == "the console") != (test.want == 200) {
				t.Errorf("%s from %s: status %d, want %d: %s", method, name, status, test.want, body)
			}
		}
	}
	go func() {
		<-open
		s.SetAccess(&transport.Access{Anyone: steps.Caller{ID: "another"}})
	}()
	if status, _ := send(http.MethodGet, url+"events", func(*http.Request) {}); status != 200 {
		t.Errorf("the stream: status %d, want 200", status)
	}
	none := serve(t, nil)
	at := strings.TrimSuffix(none.serveAs(t, access), transport.Path) + transport.ConsolePath
	if status, _ := send(http.MethodGet, at, func(*http.Request) {}); status != http.StatusNotFound {
		t.Errorf("without a console: status %d, want 404", status)
	}
}
