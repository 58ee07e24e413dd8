package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/console"
)

// eventsWriter keeps what a stream sends.
type eventsWriter struct {
	*httptest.ResponseRecorder
	mu   sync.Mutex
	text strings.Builder
}

func (w *eventsWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

// WriteString implements io.StringWriter.
func (w *eventsWriter) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

// take returns the events since the last call, such as "changed beat".
func (w *eventsWriter) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.text.Reset()
	return strings.Join(strings.Fields(strings.NewReplacer("event: ", " ", "data:", "").Replace(w.text.String())), " ")
}

// listen opens a stream as a viewer. ended is closed when it ends.
func listen(ctx context.Context, handler http.Handler, viewer, query string) (w *eventsWriter, ended chan struct{}) {
	w, ended = &eventsWriter{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
	login := httptest.NewRecorder()
	form := httptest.NewRequestWithContext(ctx, http.MethodPost, console.Path+"login", strings.NewReader("token="+viewer))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	handler.ServeHTTP(login, form)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, console.Path+"events"+query, nil)
	for _, cookie := range login.Result().Cookies() {
		r.AddCookie(cookie)
	}
	go func() {
		defer close(ended)
		handler.ServeHTTP(w, r)
	}()
	return w, ended
}

// TestEvents: a stream tells its viewer of changes of what it may see and of nothing else, at most four times a second. It ends when the
// viewer has other rights.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := person("all")
		all.All = true
		viewers := map[string]*console.Viewer{"ann": person("token:ann"), "bob": person("token:bob"), "all": all}
		s, handler := newHandler(t, viewers)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := func(caller string) {
			s.engine.Run(ctx, []byte(`{"steps":[{"expr":"6*7"}]}`), &chain.Caller{ID: caller})
			time.Sleep(2 * time.Second)
		}
		run := s.begin(t, "token:ann", "first", `{"expr":"6*7"}`)
		streams := map[string]*eventsWriter{}
		var ended chan struct{}
		for name, open := range map[string][2]string{"ann": {"ann"}, "all": {"all"}, "bob": {"bob"}, "ann's run": {"ann", "?run=" + run}} {
			var end chan struct{}
			if streams[name], end = listen(ctx, handler, open[0], open[1]); name == "bob" {
				ended = end
			}
		}
		foreign, refused := listen(ctx, handler, "bob", "?run="+run)
		<-refused
		if text := foreign.text.String(); strings.Contains(text, "event:") {
			t.Errorf("the stream of another's run: %s", text)
		}
		time.Sleep(2 * time.Second)
		for name, w := range streams {
			if got := w.take(); !strings.HasPrefix(got, "changed") {
				t.Errorf("the stream of %s begins with %q", name, got)
			}
		}
		want := func(what string, told ...string) {
			t.Helper()
			for name, w := range streams {
				got, isTold := w.take(), false
				for _, other := range told {
					isTold = isTold || other == name
				}
				if changed := strings.Count(got, "changed"); changed > 8 || (changed > 0) != isTold {
					t.Errorf("%s: the stream of %s says %q, want a change: %t", what, name, got, isTold)
				}
			}
		}
		ran("token:ann")
		want("a run of ann", "ann", "all")
		ran("token:bob")
		want("a run of bob", "bob", "all")
		ran("token:eve")
		want("a run of another", "all")
		for range 100 {
			s.engine.Run(ctx, []byte(`{"steps":[{"expr":"6*7"}]}`), &chain.Caller{ID: "token:ann"})
		}
		time.Sleep(2 * time.Second)
		want("a hundred runs of ann", "ann", "all")
		time.Sleep(15 * time.Second)
		if got := streams["ann's run"].take(); !strings.Contains(got, "beat") {
			t.Errorf("a stream without changes says %q, want beat", got)
		}
		viewers["bob"] = all
		for range 8 { // a busy stream ends, too
			ran("token:bob")
		}
		select {
		case <-ended:
		default:
			t.Error("the stream of bob goes on when bob has other rights")
		}
		cancel()
		synctest.Wait()
	})
}

// TestLiveWithoutLogin: a page that asks for its element when its login is over has the browser ask for the page.
func TestLiveWithoutLogin(t *testing.T) {
	t.Parallel()
	_, handler := newHandler(t, nil)
	for _, path := range []string{"", "events"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, console.Path+path, nil)
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized || w.Header().Get("HX-Refresh") != "true" {
			t.Errorf("%q: status %d, header %v", path, w.Code, w.Header())
		}
	}
}
