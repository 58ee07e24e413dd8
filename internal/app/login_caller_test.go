package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/polltest"
	"github.com/onecall-mcp/onecall/steps"
)

// loginConfig has a source of each kind to which callers log in.
func loginConfig(a *accounts) string {
	hash := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte("token-of-"+name))) }
	return fmt.Sprintf(`
mcpServers: {desk: {url: "%[1]s/mcp", auth: {caller: login, authServer: %[2]q, clientId: onecall, scope: openid offline_access}}}
openapi: {stock: {spec: stock.json, baseUrl: %[1]q, auth: {caller: login, authServer: %[2]q, clientId: onecall, scope: openid offline_access}}}
http: {endpoints: {note: {url: "%[1]s/note", auth: {caller: login, authServer: %[2]q, clientId: onecall, scope: openid offline_access}}}}
functions: {"stock.*": {cacheTtl: 1h}, "*.delete": {approve: always}, http.note: {rename: notes.read}}
access: {tokens: [{name: ann, sha256: %[3]s, tier: admin, console: approve}, {name: bob, sha256: %[4]s, tier: read_write}]}
`, a.services, a.url, hash("ann"), hash("bob"))
}

// withConsole serves the console, too.
func withConsole(o *ServeOptions) { o.ConsoleFlags = new(string) }

// TestCallerLogins: each caller logs in once, in the console. Calls carry the tokens of its login, and nothing of one caller reaches another.
func TestCallerLogins(t *testing.T) {
	t.Parallel()
	a := startAccounts(t)
	g := serveGateway(t, loginConfig(a), withConsole)
	who := chainOf("desk.whoami", `{}`)
	get := chainOf("stock.stock.get", `{"id":"a"}`)
	var said []string
	ask := func(caller, request string) string {
		text := g.call(t, caller, "", "chain", request)
		said = append(said, text)
		return text
	}
	for _, caller := range []string{"ann", "bob"} {
		expect(t, caller, ask(caller, who), `desk is called with a login of your own: do that on the page /console/sources of this server`, "only_")
		info := g.call(t, caller, "", "info", `{}`)
		for _, name := range []string{"desk", "stock", "notes.read"} {
			expect(t, caller, info, fmt.Sprintf(`{"name":%q,"state":"locked"`, name), "whoami")
		}
	}
	hello, _ := g.send(t, "ann", "", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	ann, bob := g.person(t, a, "ann"), g.person(t, a, "bob")
	_, page := ann.get("/console/sources")
	expect(t, "the page of ann", page, `action="/console/sources/desk/login"`, "desk/logout", "onecall auth login")
	ann.login("desk", "alice")
	_, page = ann.get("/console/sources")
	expect(t, "the page of ann after the login", page, `action="/console/sources/desk/logout"`, "sources/desk/login")
	_, page = bob.get("/console/sources")
	expect(t, "the page of bob", page, `action="/console/sources/desk/login"`, "sources/desk/logout")
	expect(t, "ann", ask("ann", who), `{"user":"alice"}`)
	expect(t, "ann's tools", ask("ann", chainOf("desk.only_alice", `{}`)), `{"user":"alice"}`)
	expect(t, "bob", ask("bob", who), `"code":"compile"`, "alice")
	expect(t, "search as bob", g.call(t, "bob", "", "search", `{"query":"only"}`), `"locked"`, "alice")
	r, list := g.send(t, "ann", "", hello.Header.Get("Mcp-Session-Id"), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"chain","arguments":`+who+`}}`)
	if r.StatusCode != http.StatusOK || !strings.Contains(list, "alice") {
		t.Errorf("the session from before the login: status %d: %s", r.StatusCode, list)
	}
	bob.login("desk", "bert")
	expect(t, "bob's tools", ask("bob", chainOf("desk.only_bert", `{}`)), `{"user":"bert"}`)
	expect(t, "not ann's", ask("bob", chainOf("desk.only_alice", `{}`)), `"code":"compile"`, `"user"`)
	expect(t, "ann still", ask("ann", who), `{"user":"alice"}`)

	expect(t, "the other sources", ask("ann", get), "stock is called with a login of your own", "alice")
	for _, source := range []string{"stock", "http.note"} {
		ann.login(source, "alice")
		bob.login(source, "bert")
	}
	expect(t, "the service", ask("ann", get), `"user":"alice","said":"Bearer [redacted]"`)
	if first, again := gjson.Get(ask("ann", get), "result.n").Int(), gjson.Get(ask("ann", get), "result.n").Int(); first != again {
		t.Errorf("call %d is made again, as %d: it is not taken from the cache", first, again)
	}
	expect(t, "not from ann's", ask("bob", get), `"user":"bert"`, "alice")
	expect(t, "the endpoint", ask("bob", chainOf("notes.read", `{}`)), `"user":"bert"`, "alice")
	expect(t, "in the background", ask("ann", `{"steps":[{"fn":"stock.stock.get","args":{"id":"b"}}],"asyncAfterMs":100000}`), `"user":"alice"`)
	_, page = bob.get("/console/sources")
	expect(t, "the endpoint can be left", page, `action="/console/sources/http.note/logout"`)
	if r, page := bob.act("http.note/logout"); r.StatusCode != http.StatusSeeOther {
		t.Errorf("a logout: status %d: %s", r.StatusCode, page)
	}
	expect(t, "after the logout", ask("bob", chainOf("notes.read", `{}`)), "http.note is called with a login of your own", "bert")
	expect(t, "the others stay", ask("bob", get), `"user":"bert"`)
	expect(t, "of the other caller, too", ask("ann", chainOf("notes.read", `{}`)), `"user":"alice"`)

	if !strings.Contains(g.log.String(), "a login to a source") {
		t.Error("the logins are not logged")
	}
	a.wantNoSecrets(t, "the log", g.log.String())
	a.wantNoSecrets(t, "the answers", strings.Join(said, "\n"))
	database := ""
	for _, end := range []string{"", "-wal"} {
		text, _ := os.ReadFile(filepath.Join(os.Getenv("XDG_STATE_HOME"), "onecall", "journal.db"+end))
		database += string(text)
	}
	if len(database) == 0 {
		t.Error("there is no journal")
	}
	a.wantNoSecrets(t, "the database", database)
	expect(t, "and names", database, "logins token:ann", "alice@", "refresh_token")
	a.wantNoSecrets(t, "pages", strings.Join(append(ann.pages(), bob.pages()...), "\n"))
}

// pages returns those of the console that the person has seen.
func (p *person) pages() (list []string) {
	for _, page := range p.seen {
		if strings.Contains(page, "onecall") && !strings.Contains(page, "Go on") {
			list = append(list, page)
		}
	}
	return list
}

// TestCallerLoginAnswers: only the session that has begun a login can finish it, once, and only with its own answer.
func TestCallerLoginAnswers(t *testing.T) {
	t.Parallel()
	a := startAccounts(t)
	g := serveGateway(t, loginConfig(a), withConsole)
	ann, bob, again := g.person(t, a, "ann"), g.person(t, a, "bob"), g.person(t, a, "ann")
	locked := func(what, caller string) {
		t.Helper()
		expect(t, what, g.call(t, caller, "", "chain", chainOf("desk.whoami", `{}`)), "a login of your own", `"user"`)
	}
	refused := func(what string, p *person, path string) {
		t.Helper()
		if r, page := p.get(path); r.StatusCode != http.StatusForbidden || !strings.Contains(page, "that was begun in this session") {
			t.Errorf("%s: status %d: %s", what, r.StatusCode, page)
		}
	}
	for _, path := range []string{"", "?state=", "?state=x&code=y", "?code=y"} {
		refused(path, ann, "/console/callback/desk"+path)
	}
	back := ann.allow(ann.begin("desk"), "alice")
	refused("another caller", bob, back)
	refused("another server", ann, strings.Replace(back, "/desk?", "/stock?", 1))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := &person{&http.Client{Jar: jar, CheckRedirect: ann.CheckRedirect}, t, a, ann.base, nil}
	r, page := stranger.get(back) // as a browser comes from another site: without its cookie
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Refresh"), "0; url=/console/callback/desk?again=1&") || !strings.Contains(page, "Go on") {
		t.Errorf("without a cookie: status %d, %q: %s", r.StatusCode, r.Header.Get("Refresh"), page)
	}
	if r, _ := stranger.get(back + "&again=1"); r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/console/login") {
		t.Errorf("without a login: status %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	locked("nobody yet", "ann")
	locked("nor the other", "bob")
	if r, page := again.get(back); r.StatusCode != http.StatusSeeOther { // the same caller with the same token
		t.Fatalf("the answer: status %d: %s", r.StatusCode, page)
	}
	refused("once more", ann, back)
	expect(t, "ann", g.call(t, "ann", "", "chain", chainOf("desk.whoami", `{}`)), "alice")
	locked("bob still", "bob")

	asked, err := url.Parse(bob.begin("desk"))
	if err != nil {
		t.Fatal(err)
	}
	no := "/console/callback/desk?error=access_denied&error_description=%3Cb%3Eno&state=" + asked.Query().Get("state")
	if r, page := bob.get(no); r.StatusCode != http.StatusForbidden || !strings.Contains(page, "did not let you in: access_denied &lt;b&gt;no") {
		t.Errorf("who cancels: status %d: %s", r.StatusCode, page)
	}
	locked("after that", "bob")
	refused("a login that was cancelled", bob, no)

	for _, source := range []string{"none", "stock.stock.get", "http"} {
		if r, page := bob.act(source + "/login"); r.StatusCode != http.StatusForbidden || !strings.Contains(page, "that you may log in to") {
			t.Errorf("a login to %s: status %d: %s", source, r.StatusCode, page)
		}
	}
	if r, page := bob.post("/console/sources/desk/login", nil); r.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another page: status %d: %s", r.StatusCode, page)
	}
	if n := a.count("authorization_code"); n != 1 {
		t.Errorf("%d codes were exchanged, want 1", n)
	}
	for range 19 { // it has begun one
		bob.begin("desk")
	}
	if r, page := bob.act("desk/login"); r.StatusCode != fault.Busy.HTTP() || !strings.Contains(page, "within an hour") {
		t.Errorf("too many logins: status %d: %s", r.StatusCode, page)
	}
	ann.begin("desk")
}

// edit changes the login of a caller in the gateway's database, as another process does.
func (g *gateway) edit(t *testing.T, source, caller string, change func(login map[string]any)) {
	t.Helper()
	other, err := Open(t.Context(), &Options{Reporter: silent{}, Redactor: &Redactor{}, Config: g.config, NoSources: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	store, _ := other.loginOf(source, caller).Store.(*journalLogins)
	found, err := other.Journal.States(t.Context(), &journal.StateFilter{Owner: store.owner, AnySpace: true, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		if _, key, _ := strings.Cut(one.Space, " "+source+"-"); key != "" && one.Name == "login" {
			login := map[string]any{}
			if err := json.Unmarshal(one.Value, &login); err != nil {
				t.Fatal(err)
			}
			change(login)
			value, err := json.Marshal(login)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Set(t.Context(), source+"-"+key, value); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s has no login to %s among %+v", caller, source, found)
}

// expired makes a login look as it does once its token has ended.
func expired(login map[string]any) {
	login["obtained"], login["expires"] = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
}

// TestCallerLoginRuns: a run that waits goes on after its caller's login was renewed, and not with another login. A login that cannot be
// renewed counts as none.
func TestCallerLoginRuns(t *testing.T) {
	t.Parallel()
	a := startAccounts(t)
	g := serveGateway(t, loginConfig(a), withConsole)
	ann := g.person(t, a, "ann")
	ann.login("stock", "alice")
	remove := func() (resume string) {
		t.Helper()
		waits := g.call(t, "ann", "", "chain", chainOf("stock.stock.delete", `{"id":"a"}`))
		expect(t, "approval", waits, `"code":"approval_required"`)
		return fmt.Sprintf(`{"resume":%q,"approve":%q}`, gjson.Get(waits, "resume").Str, gjson.Get(waits, "approve").Str)
	}
	resume, later, reloaded := remove(), remove(), remove()
	text, err := os.ReadFile(g.config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(g.config), "onecall.yaml", strings.Replace(string(text), "cacheTtl: 1h", "cacheTtl: 2h", 1))
	ctx, cancel := context.WithTimeout(t.Context(), polltest.TooLong)
	defer cancel()
	if g.log.Await(ctx, regexp.MustCompile("configuration reloaded"), 1) == nil {
		t.Fatalf("the configuration is not loaded again:\n%s", g.log.String())
	}
	expect(t, "the first request after a reload", g.call(t, "ann", "", "chain", reloaded), `"user":"alice"`)
	g.edit(t, "stock", "token:ann", expired)
	read := 0
	polltest.Until(t, "the login is renewed", func() bool {
		read++ // another one each time: results are cached
		g.call(t, "ann", "", "chain", chainOf("stock.stock.get", fmt.Sprintf(`{"id":"%d"}`, read)))
		return a.count("refresh_token") == 1
	})
	expect(t, "after the renewal", g.call(t, "ann", "", "chain", resume), `"user":"alice"`)
	_, page := ann.get("/console/approvals")
	expect(t, "what waits is shown to its caller", page, "stock.stock.delete")

	ann.login("stock", "amelia")
	expect(t, "another login", g.call(t, "ann", "", "chain", later), `"code":"denied"`, "amelia", "alice")
	expect(t, "is one", g.call(t, "ann", "", "chain", chainOf("stock.stock.get", `{"id":"a"}`)), `"user":"amelia"`, "alice")

	a.mu.Lock()
	a.noGrants = true
	a.mu.Unlock()
	g.edit(t, "stock", "token:ann", expired)
	var last string
	polltest.Until(t, "the login is over", func() bool {
		read++
		last = g.call(t, "ann", "", "chain", chainOf("stock.stock.get", fmt.Sprintf(`{"id":"%d"}`, read)))
		return strings.Contains(last, `"ok":false`)
	})
	expect(t, "a login that is not renewed", last, "/console/sources of this server", "refresh_token\"")
	expect(t, "then", g.call(t, "ann", "", "info", `{}`), `{"name":"stock","state":"locked"`)
	_, page = ann.get("/console/sources")
	expect(t, "and there", page, `action="/console/sources/stock/login"`, "sources/stock/logout")
	a.wantNoSecrets(t, "the log", g.log.String())
}

// TestGatewayLogin: who may restart a source also logs onecall itself in to it, if it waits for that.
func TestGatewayLogin(t *testing.T) {
	t.Parallel()
	a := startAccounts(t)
	hash := func(name string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte("token-of-"+name))) }
	g := serveGateway(t, fmt.Sprintf(`
mcpServers: {desk: {url: "%s/mcp", oauth: {authServer: %q, clientId: onecall, scopes: [openid, offline_access]}}}
journal: {store: memory}
access: {tokens: [{name: ann, sha256: %s, tier: admin, console: approve}, {name: bob, sha256: %s, tier: admin}]}
`, a.services, a.url, hash("ann"), hash("bob")), withConsole)
	ann, bob := g.person(t, a, "ann"), g.person(t, a, "bob")
	const button = `action="/console/sources/desk/login"`
	polltest.Until(t, "the server asks for a login", func() bool {
		_, page := ann.get("/console/sources")
		return strings.Contains(page, button)
	})
	_, page := bob.get("/console/sources")
	expect(t, "who only looks", page, "onecall auth login", button)
	if r, page := bob.act("desk/login"); r.StatusCode != http.StatusForbidden {
		t.Errorf("who only looks logs in: status %d: %s", r.StatusCode, page)
	}
	ann.login("desk", "gateway")
	polltest.Until(t, "the server is called", func() bool {
		return strings.Contains(g.call(t, "bob", "", "chain", chainOf("desk.whoami", `{}`)), `{"user":"gateway"}`)
	})
	_, page = ann.get("/console/sources")
	expect(t, "logged in", page, "Restart desk", button, "desk/logout")
	if r, page := ann.act("desk/logout"); r.StatusCode != http.StatusForbidden {
		t.Errorf("the login of all ends in the console: status %d: %s", r.StatusCode, page)
	}
	a.wantNoSecrets(t, "the log", g.log.String())
}

// TestLocalLogin: commands, and a server over stdio, call with what this machine's user has logged in with.
func TestLocalLogin(t *testing.T) {
	t.Parallel()
	a := startAccounts(t)
	folder := t.TempDir()
	write(t, folder, "stock.json", personalDocument)
	options := &Options{Reporter: silent{}, Redactor: &Redactor{}, Calls: true,
		Config: write(t, folder, "onecall.yaml", strings.Replace(loginConfig(a), "functions: {", "functions: {desk.only_local: {approve: always}, ", 1))}
	who := []byte(chainOf("desk.whoami", `{}`))
	run := func(want string) {
		t.Helper()
		app, err := Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		defer app.Close()
		expect(t, "a command", string(app.Run(t.Context(), who, nil).JSON), want)
	}
	run("desk is called with a login of your own: run `onecall auth login desk`")
	all, closeAll, err := Accounts(t.Context(), options, "")
	if err != nil || len(all) != 3 {
		t.Fatalf("there are the accounts %+v, %v, want 3", all, err)
	}
	if err := closeAll(); err != nil {
		t.Error(err)
	}
	worker(t, a, options)
	one, closeOne, err := Accounts(t.Context(), options, "desk")
	if err != nil || len(one) != 1 {
		t.Fatalf("there are the accounts %+v, %v, want desk", one, err)
	}
	defer closeOne()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.TooLong)
	defer cancel()
	p := &person{&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, a, "http://127.0.0.1", nil}
	where, err := one[0].Login(ctx, localUser{p})
	if err != nil || where != "journal" {
		t.Fatalf("the login: %q, %v", where, err)
	}
	run(`{"user":"local"}`)
	resume := func() string {
		t.Helper()
		app, err := Open(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		defer app.Close()
		waits := string(app.Run(t.Context(), []byte(chainOf("desk.only_local", `{}`)), nil).JSON)
		expect(t, "a run that waits", waits, `"code":"approval_required"`)
		return fmt.Sprintf(`{"resume":%q,"approve":%q}`, gjson.Get(waits, "resume").Str, gjson.Get(waits, "approve").Str)
	}
	who = []byte(resume())
	run(`{"user":"local"}`)
	who = []byte(resume())
	if _, err := one[0].Login(ctx, localUser{p}); err != nil {
		t.Fatal(err)
	}
	run(`"code":"denied"`)
	who = []byte(chainOf("desk.whoami", `{}`))
	if state, err := one[0].State(ctx); err != nil || !state.LoggedIn || !state.Renews {
		t.Errorf("the state is %+v, %v", state, err)
	}
	if err := one[0].Logout(ctx); err != nil {
		t.Error(err)
	}
	run("a login of your own")
}

// worker fails the test unless a worker calls with the login of the caller for whom it works, and not with that of its own user.
func worker(t *testing.T, a *accounts, options *Options) {
	t.Helper()
	app, err := Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer app.Close()
	flow, err := login.Begin(t.Context(), app.loginOf("desk", "token:ann"), "http://127.0.0.1/callback")
	if err != nil {
		t.Fatal(err)
	}
	p := &person{&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, a, "http://127.0.0.1", nil}
	back, err := url.Parse(p.allow(flow.URL(), "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if err := flow.Finish(t.Context(), back.Query()); err != nil {
		t.Fatal(err)
	}
	for caller, want := range map[string]string{"token:ann": `{"user":"alice"}`, "token:bob": "a login of your own"} {
		c := &chain.Caller{}
		ctx, end := app.ActFor(t.Context(), c, &durable.Caller{Caller: steps.Caller{ID: caller, Rights: steps.Rights{Tier: steps.TierRead}}})
		expect(t, "a worker for "+caller, string(app.Run(ctx, []byte(chainOf("desk.whoami", `{}`)), c).JSON), want)
		end()
	}
}

// localUser logs in as local.
type localUser struct{ *person }

func (localUser) Notice(string) {}

func (u localUser) Open(address string) error {
	u.get(u.allow(address, "local"))
	return nil
}

// TestLoginLock: one process at a time renews a login, and one that has ended holds nobody up for long.
func TestLoginLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.New(&journal.Memory{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		stores := [2]*journalLogins{}
		for i := range stores {
			stores[i] = &journalLogins{journal: func() *journal.Journal { return j }, owner: "logins ann"}
		}
		unlock, err := stores[0].Lock(t.Context(), "desk")
		if err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := stores[1].Lock(soon, "desk"); fault.CodeOf(err) != fault.Timeout {
			t.Errorf("the lock that another has: %v, want timeout", err)
		}
		if other, err := stores[1].Lock(t.Context(), "stock"); err != nil {
			t.Error(err)
		} else {
			other()
		}
		go func() {
			time.Sleep(time.Second)
			unlock()
		}()
		began := time.Now()
		if _, err = stores[1].Lock(t.Context(), "desk"); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("the lock that is free again: %v after %v", err, time.Since(began))
		}
		if _, err := stores[0].Lock(t.Context(), "desk"); err != nil || time.Since(began) < lockLife {
			t.Errorf("the lock of a process that has ended: %v after %v", err, time.Since(began))
		}
	})
}
