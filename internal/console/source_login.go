package console

import (
	"cmp"
	"context"
	"html"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// SourceLogin is how people log in to a source.
type SourceLogin struct {
	Own bool // what they log in with is for the viewer's calls alone; false: for the calls of all callers
	// Begin begins a login whose answer comes to redirect.
	Begin func(ctx context.Context, redirect string) (LoginFlow, error)
	// Logout ends the login; nil: it is not for the console to end.
	Logout func(ctx context.Context) error
	// Changed must be called after a login or a logout.
	Changed func()
}

// LoginFlow is a login that has begun: a person is at an authorization server.
type LoginFlow interface {
	URL() string   // where the person logs in
	Host() string  // the host of that
	State() string // identifies the answer, and cannot be guessed
	// Finish takes the answer: the query with which the browser came to the redirect.
	Finish(ctx context.Context, query url.Values) error
}

// callbackPath is where browsers come back to from authorization servers, below Path. The name of the source follows: one server must not
// get the answer of another (RFC 9700, section 4.4).
const callbackPath = "callback/"

// Bounds of logins that have begun.
const (
	loginTime = 10 * time.Minute
	maxLogins = 20 // of one viewer within loginSpan: each may register a client at an authorization server
	loginSpan = time.Hour
)

// sourceLogins are the logins that have begun, by their states. They are kept in this process only.
type sourceLogins struct {
	mu    sync.Mutex
	list  map[string]*begunLogin
	times map[string][]time.Time // when each viewer began one, within loginSpan
}

// allow counts a login that is to begin, unless the viewer has begun too many.
func (l *sourceLogins) allow(viewer string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[string][]time.Time{}
	}
	for who, times := range l.times {
		l.times[who] = slices.DeleteFunc(times, func(at time.Time) bool { return time.Since(at) >= loginSpan })
		if len(l.times[who]) == 0 {
			delete(l.times, who)
		}
	}
	if len(l.times[viewer]) >= maxLogins {
		return fault.New(fault.Busy, "you have begun %d logins within an hour: go on with one of them, or try again later", maxLogins)
	}
	l.times[viewer] = append(l.times[viewer], time.Now())
	return nil
}

// begunLogin is a login that only the session of the viewer who began it can finish.
type begunLogin struct {
	LoginFlow
	source, viewer, credential string
	began                      time.Time
}

// add keeps a login, and drops those whose time is over.
func (l *sourceLogins) add(added *begunLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = map[string]*begunLogin{}
	}
	for state, one := range l.list {
		if time.Since(one.began) >= loginTime {
			delete(l.list, state)
		}
	}
	l.list[added.State()] = added
}

// take returns the login to a source with a state, once; nil: this session has begun none.
func (l *sourceLogins) take(source, state string, r *request) *begunLogin {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.list[state]
	if one == nil || one.source != source || one.viewer != r.viewer.ID || one.credential != r.credential ||
		time.Since(one.began) >= loginTime {
		return nil
	}
	delete(l.list, state)
	return one
}

// loginTo returns how the viewer logs in to a source: for its own calls, if it may know the source, or for those of all callers, if it may
// restart the source. nil: it does not.
func (r *request) loginTo(calls *Calls, source string) *SourceLogin {
	if calls.Login == nil {
		return nil
	}
	login := calls.Login(source, r.viewer)
	switch {
	case login == nil:
		return nil
	case login.Own && !r.knows(calls, source):
		return nil
	case login.Own:
	case r.restarter(calls)(source) == nil:
		return nil
	}
	return login
}

// knows reports whether the viewer may use something that needs the credential with this name, or could with it.
func (r *request) knows(calls *Calls, credential string) bool {
	view := r.view(calls)
	return slices.ContainsFunc(view.Sources(), func(s steps.SourceInfo) bool { return cmp.Or(s.Needs, s.Name) == credential }) ||
		functionWith(view.Registry(), credential) != nil
}

// functionWith returns a function that carries the credential with this name; nil: there is none.
func functionWith(functions *steps.Registry, credential string) *steps.Spec {
	for _, entry := range functions.All() {
		if entry.Spec().Needs == credential {
			return entry.Spec()
		}
	}
	return nil
}

// withLogin finds how the viewer logs in to a source.
func (r *request) withLogin(source string) (*SourceLogin, error) {
	if err := r.mustServe(); err != nil {
		return nil, err
	}
	calls, err := r.Open(r.Context())
	if err != nil {
		return nil, err
	}
	if login := r.loginTo(calls, source); login != nil {
		return login, nil
	}
	return nil, fault.New(fault.Denied, "there is no source %s that you may log in to", fault.Quote(source))
}

// away is the page that leads to an authorization server.
type away struct{ Source, URL, Host string }

// beginLogin sends the viewer to where it logs in to a source.
func beginLogin(r *request) (*page, error) {
	source := r.PathValue("name")
	login, err := r.withLogin(source)
	if err != nil {
		return nil, err
	}
	if err := r.console.logins.allow(r.viewer.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	flow, err := login.Begin(ctx, r.origin()+Path+callbackPath+url.PathEscape(source))
	if err != nil {
		return nil, err
	}
	r.console.logins.add(&begunLogin{flow, source, r.viewer.ID, r.credential, time.Now()})
	// Browsers may not follow a redirect of a form to another origin (form-action of the pages' policy), so the page itself goes there.
	return &page{template: "away", title: "Log in to " + source, data: &away{source, flow.URL(), flow.Host()}, next: flow.URL()}, nil
}

// origin returns the origin of the console as the browser knows it.
func (r *request) origin() string {
	if origin := r.Header.Get("Origin"); strings.HasSuffix(origin, "://"+r.Host) {
		return origin
	}
	if isSecure(r.Request) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// comeBack answers the browser that comes back from an authorization server. It comes from another site, so without the cookie, which is
// SameSite=Strict: a page of the console sends it here once more.
func (c *console) comeBack(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if _, err := r.Cookie(cookieName(r)); err == nil || query.Has("again") {
		c.handler(finishLogin)(w, r)
		return
	}
	query.Set("again", "1")
	here := Path + callbackPath + url.PathEscape(r.PathValue("name")) + "?" + query.Encode()
	w.Header().Set("Refresh", "0; url="+here)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, `<!doctype html><title>onecall</title><link rel="icon" href="data:,"><a href="`+html.EscapeString(here)+`">Go on</a>`)
}

// finishLogin takes the answer to a login that this session has begun.
func finishLogin(r *request) (*page, error) {
	query := r.URL.Query()
	begun := r.console.logins.take(r.PathValue("name"), query.Get("state"), r)
	if begun == nil {
		return nil, fault.New(fault.Denied, "nobody was logged in: this answer belongs to no login that was begun in this session here, or "+
			"that has ended already. Begin it again on the page Sources")
	}
	login, err := r.withLogin(begun.source) // the rights of now
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := begun.Finish(ctx, query); err != nil {
		r.log.InfoContext(ctx, "a login to a source failed", "source", begun.source, "caller", r.viewer.ID, "code", fault.CodeOf(err))
		return nil, err
	}
	login.Changed()
	r.log.InfoContext(ctx, "a login to a source", "source", begun.source, "caller", r.viewer.ID, "own", login.Own)
	return &page{redirect: "sources"}, nil
}

// endLogin ends the viewer's own login to a source.
func endLogin(r *request) (*page, error) {
	source := r.PathValue("name")
	login, err := r.withLogin(source)
	if err != nil {
		return nil, err
	}
	if login.Logout == nil {
		return nil, fault.New(fault.Denied, "the login to %s is for all callers: onecall auth logout ends it", source)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	err = login.Logout(ctx)
	login.Changed()
	if err != nil {
		return nil, err
	}
	r.log.InfoContext(ctx, "a logout of a source", "source", source, "caller", r.viewer.ID)
	return &page{redirect: "sources"}, nil
}
