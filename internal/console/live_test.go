package console_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/console"
	"github.com/onecall-mcp/onecall/steps"
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

// login returns the cookies of a viewer who has logged in.
func login(ctx context.Context, handler http.Handler, viewer string) []*http.Cookie {
	w := httptest.NewRecorder()
	form := httptest.NewRequestWithContext(ctx, http.MethodPost, console.Path+"login", strings.NewReader("token="+viewer))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	handler.ServeHTTP(w, form)
	return w.Result().Cookies()
}

// listen opens a stream as a viewer. ended is closed when it ends.
func listen(ctx context.Context, handler http.Handler, viewer, query string) (w *eventsWriter, ended chan struct{}) {
	w, ended = &eventsWriter{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{})
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, console.Path+"events"+query, nil)
	for _, cookie := range login(ctx, handler, viewer) {
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

// TestLiveWithoutLogin: an open page that asks for its element, or for its stream, when its login is over is told so, and nothing else.
func TestLiveWithoutLogin(t *testing.T) {
	t.Parallel()
	_, handler := newHandler(t, nil)
	for _, path := range []string{"", "playground", "events", "events?still"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, console.Path+path, nil)
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized || w.Body.Len() > 0 {
			t.Errorf("%q: status %d, %s", path, w.Code, w.Body)
		}
	}
}

// TestStreamsEnd: the streams of a viewer end when it logs out, in any window, and those of all when another configuration is served. Their
// pages ask for others then, and learn what has changed.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, handler := newHandler(t, map[string]*console.Viewer{"ann": person("token:ann"), "bob": person("token:bob")})
		replaced := make(chan struct{})
		s.backend.Replaced, s.backend.Serves = replaced, true
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		type kind struct{ viewer, query string }
		ends := map[kind]chan struct{}{}
		for _, viewer := range []string{"ann", "bob"} {
			for _, query := range []string{"", "?still", "?sources"} {
				w, ended := listen(ctx, handler, viewer, query)
				synctest.Wait()
				if got := w.take(); got != "changed" || w.Header().Get("X-Accel-Buffering") != "no" {
					t.Errorf("the stream %q of %s begins with %q, header %v", query, viewer, got, w.Header())
				}
				ends[kind{viewer, query}] = ended
			}
		}
		want := func(after string, viewers ...string) {
			t.Helper()
			synctest.Wait()
			for k, ended := range ends {
				goes := true
				select {
				case <-ended:
					goes = false
				default:
				}
				if goes == slices.Contains(viewers, k.viewer) {
					t.Errorf("after %s the stream %q of %s goes on: %t", after, k.query, k.viewer, goes)
				}
			}
		}
		want("nothing")
		logout := httptest.NewRequestWithContext(ctx, http.MethodPost, console.Path+"logout", nil)
		for _, cookie := range login(ctx, handler, "ann") {
			logout.AddCookie(cookie)
		}
		handler.ServeHTTP(httptest.NewRecorder(), logout)
		want("the logout of ann", "ann")
		close(replaced)
		want("a reload", "ann", "bob")
	})
}

// changingSource is a source whose state changes.
type changingSource struct {
	*source
	changed func()
}

// Watch implements steps.Live.
func (s *changingSource) Watch(changed func()) { s.changed = changed }

// TestEventsOfSources: the page of sources is told of changes of the sources that its viewer may know, and not of others.
func TestEventsOfSources(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, handler := newHandler(t, map[string]*console.Viewer{"ann": reader("token:ann"), "admin": person("admin")})
		secret := returning("vault.open", `1`)
		secret.Tier = steps.TierAdmin
		sources := map[string]*changingSource{"vault": {source: &source{[]steps.Function{secret}, ready}},
			"wiki": {source: &source{[]steps.Function{returning("wiki.page", `1`)}, ready}}}
		for name, source := range sources {
			if err := s.catalog.Add(name, source); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused, ended := listen(ctx, handler, "ann", "?sources")
		if <-ended; strings.Contains(refused.text.String(), "event:") {
			t.Error("a console that serves nobody tells of its sources")
		}
		s.backend.Serves = true
		streams := map[string]*eventsWriter{}
		for _, viewer := range []string{"ann", "admin"} {
			streams[viewer], _ = listen(ctx, handler, viewer, "?sources")
		}
		time.Sleep(time.Second)
		for _, w := range streams {
			w.take()
		}
		for _, name := range []string{"wiki", "vault", "wiki", "vault"} {
			sources[name].status = steps.Status{State: steps.StateRetrying, Retry: time.Now(), Error: fault.New(fault.Unavailable, "it is away")}
			sources[name].changed()
			time.Sleep(time.Second)
			for viewer, w := range streams {
				want := ""
				if viewer == "admin" || name == "wiki" {
					want = "changed"
				}
				if got := w.take(); got != want {
					t.Errorf("after a change of %s, the stream of %s says %q, want %q", name, viewer, got, want)
				}
			}
		}
		cancel()
		synctest.Wait()
	})
}
