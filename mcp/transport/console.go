package transport

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/onecall-mcp/onecall/internal/loopback"
	"github.com/onecall-mcp/onecall/steps"
)

// ConsolePath is where Options.Console is served.
const ConsolePath = "/console/"

const (
	// loginPath is where people log in: the only page that reads what strangers send.
	loginPath = ConsolePath + "login"
	// maxConsoleRequests bounds the requests to the console in progress, except logins. The console bounds those of a person.
	maxConsoleRequests = 500
	// maxLogins bounds the logins in progress, so that those who cannot log in take no place of those who have.
	maxLogins = 100
	// loginTimeout bounds the time in which the form of a login is read.
	loginTimeout = 5 * time.Second
)

// serveConsole passes a request to the console. What only reads ends when the access configuration changes, since an open stream may have
// lost its rights: browsers ask again. What acts is in progress until it is answered, which a shutdown lets end; a login is not. For what
// goes on after its answer, the console calls Begin.
func (s *Server) serveConsole(w http.ResponseWriter, r *http.Request) {
	console, a := s.opts().Console, s.access.Load()
	if console == nil {
		http.NotFound(w, r)
		return
	}
	if f := a.check(r, r.URL.Query()); f != nil {
		s.reject(w, r, f)
		return
	}
	from := &identity{Caller: &steps.Caller{ID: "console"}, remote: remote{r.RemoteAddr, r.Header["X-Forwarded-For"]}, access: a}
	from.keysVersion.Store(a.keysVersion())
	isLogin, places := r.URL.Path == loginPath, maxConsoleRequests
	if isLogin {
		from.ID, places = "login to the console", maxLogins
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(loginTimeout)) // supported by net/http's connections
	}
	free, ok := s.requests.acquire(from.ID, places)
	if !ok {
		s.tooBusy(w, from, "too many requests to the console are under way: try again")
		return
	}
	defer free()
	if r.Method != http.MethodGet && !isLogin {
		done, ok := s.calls.track(&s.calls.requests, false)
		if !ok {
			w.Header().Set("Retry-After", "1")
			http.Error(w, closingMessage+"nothing of this was done, send it again", http.StatusServiceUnavailable)
			return
		}
		defer done()
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(s.calls.ctx, func() { cancel(context.Cause(s.calls.ctx)) })()
		console.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	ctx, end, refused := s.endWithRights(r.Context(), from)
	defer end()
	if refused != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the configuration has changed just now: try again", http.StatusServiceUnavailable)
		return
	}
	console.ServeHTTP(w, r.WithContext(ctx))
}

// ConsoleURL returns where the sender's user finds the console: at the host of Access.URL, else at this machine's, if the sender named it.
// Any other name is only what a client wrote. "": the console is not served, or it is not known where.
func (r *Request) ConsoleURL() string {
	switch {
	case r.from == nil || r.server.opts().Console == nil:
		return ""
	case r.from.access.publicURL != nil:
		return r.from.access.publicURL.Scheme + "://" + r.from.access.publicURL.Host + ConsolePath
	}
	page := "http://" + r.from.host + ConsolePath
	if read, err := url.Parse(page); err != nil || read.Host != r.from.host || !loopback.Is(read.Hostname()) {
		return ""
	}
	return page
}
