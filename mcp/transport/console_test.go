package transport_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
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

// TestConsoleLogins: those who log in slowly, and might never do, take no place of those who are logged in.
func TestConsoleLogins(t *testing.T) {
	t.Parallel()
	reading := make(chan struct{})
	s := serve(t, func(o *transport.Options) {
		o.Console = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Body != http.NoBody {
				reading <- struct{}{}
				_, _ = io.ReadAll(r.Body)
			}
		})
	})
	access := &transport.Access{Anyone: steps.Caller{ID: "anyone"}}
	url := strings.TrimSuffix(s.serveAs(t, access), transport.Path) + transport.ConsolePath
	send := func(method, path string, body io.Reader, size int64) int {
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.ContentLength = size
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0 // that of a login that was given up
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	var logins sync.WaitGroup
	var forms []*io.PipeWriter
	for range 600 {
		from, to := io.Pipe()
		forms = append(forms, to)
		refused := make(chan struct{})
		logins.Go(func() {
			if send(http.MethodPost, "login", from, 1<<20) == http.StatusTooManyRequests {
				close(refused)
			}
		})
		select {
		case <-reading:
			continue
		case <-refused:
		}
		break
	}
	if status := send(http.MethodGet, "", nil, 0); status != http.StatusOK {
		t.Errorf("a page while %d log in: status %d, want 200", len(forms)-1, status)
	}
	if status := send(http.MethodPost, "runs/run_a/approve", nil, 0); status != http.StatusOK {
		t.Errorf("an act while %d log in: status %d, want 200", len(forms)-1, status)
	}
	for _, to := range forms {
		to.Close()
	}
	logins.Wait()
}
