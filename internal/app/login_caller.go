package app

import (
	"context"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/credential"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/steps"
)

// logins returns the logins of callers to one source. serverURL is the endpoint of an MCP server, which may say where to log in; "": the
// source is none. What is wrong with it is added to o.faults.
func (o *sourceOpener) logins(name, pointer, serverURL string, a *config.Auth) *credential.Logins {
	options := &login.Options{Source: name, ServerURL: serverURL, ClientID: config.Or(a.ClientID, ""), ClientSecret: config.Or(a.Secret, ""),
		Scopes: strings.Fields(config.Or(a.Scope, "")), AuthServer: config.Or(a.AuthServer, ""), Remedy: o.howToLogin(name)}
	if serverURL == "" {
		options.ServerURL, options.Direct = options.AuthServer, true
	}
	urls := []string{options.ServerURL}
	if options.AuthServer != "" {
		urls = append(urls, options.AuthServer)
	}
	rules, err := egress.AnyPublic().WithURLs(urls...)
	if err == nil {
		options.HTTPClient, options.Store = rules.Client(nil), &journalLogins{}
		_, err = login.NewPersonal(options)
	}
	if err != nil {
		o.faults = append(o.faults, o.config.FaultAt(pointer+"/auth", err))
		return &credential.Logins{Open: func(string) credential.Login { return nil }}
	}
	o.callerLogins[name] = options
	return &credential.Logins{Help: options.Remedy, Open: func(caller string) credential.Login {
		options := o.loginOf(name, caller)
		if options == nil {
			return nil
		}
		own, err := login.NewPersonal(options)
		if err != nil { // it was checked
			return nil
		}
		return own
	}}
}

// howToLogin says what callers do to log in to a source.
func (a *App) howToLogin(source string) string {
	switch {
	case !a.process.overHTTP:
		return "run `onecall auth login " + source + "`"
	case !a.process.console:
		return "that is done in the console, which this server does not have: it needs serve --console"
	case strings.HasPrefix(a.consolePage(), "/"):
		return "do that on the page " + a.consolePage() + "sources of this server, with your token"
	}
	return "do that at " + a.consolePage() + "sources, with your token"
}

// loginOf returns the options of a caller's login to a source; nil: callers do not log in to it, or this one cannot.
func (a *App) loginOf(source, caller string) *login.Options {
	shared := a.callerLogins[source]
	if shared == nil || caller == anonymous { // anyone could use the login
		return nil
	}
	options := *shared
	options.Store = &journalLogins{journal: func() *journal.Journal { return a.Journal },
		owner: "logins " + a.loginOwner(caller) + "\x1f" + a.Scope()}
	return &options
}

// loginOwner returns whose a login is. The database of a server may have users of several machines, which all have no name.
func (a *App) loginOwner(caller string) string {
	if caller != "" || config.Or(a.config.Journal.Store, "sqlite") == "sqlite" {
		return caller
	}
	name := "?"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, _ := os.Hostname()
	return "local:" + name + "@" + host
}

// openLocal gives commands, and the client of a server over stdio, what this machine's user has logged in with.
func (a *App) openLocal() {
	if a.credentials == nil || a.process.overHTTP || len(a.callerLogins) == 0 {
		return
	}
	a.local = a.credentials.Bring(&steps.Caller{}, nil)
}

// Functions returns the functions that this machine's user may use in commands.
func (a *App) Functions() interface {
	steps.Provider
	Sources() []steps.SourceInfo
} {
	if a.local == "" {
		return a.Catalog
	}
	return steps.NewView(a.Catalog, func(*steps.Spec) bool { return true }).WithCredentials(a.local)
}

// Credentials returns what calls of commands carry, as budget.Rights has it.
func (a *App) Credentials() string { return a.Catalog.Credentials(a.local) }

// journalLogins has the logins of one owner, sealed in the journal's database. It implements login.Store.
type journalLogins struct {
	journal func() *journal.Journal // may return nil
	owner   string
}

const (
	loginLife = 365 * 24 * time.Hour // how long a login is kept that is not renewed
	lockLife  = 2 * time.Minute      // of a lock whose process has ended: longer than a renewal may take
	lockPause = 50 * time.Millisecond
)

// open returns the journal and the key of a login in it, or of its lock.
func (s *journalLogins) open(key, name string) (*journal.Journal, journal.StateKey, error) {
	j := s.journal()
	if j == nil {
		return nil, journal.StateKey{}, fault.New(fault.Unavailable, "there is no journal, in whose database logins are kept")
	}
	return j, journal.StateKey{Owner: s.owner, Space: name + " " + key, Name: name}, nil
}

// Get implements login.Store.
func (s *journalLogins) Get(ctx context.Context, key string) ([]byte, error) {
	j, at, err := s.open(key, "login")
	if err != nil {
		return nil, err
	}
	found, err := j.States(ctx, &journal.StateFilter{Owner: at.Owner, Space: at.Space, Names: []string{at.Name}, Values: true})
	switch {
	case fault.CodeOf(err) == fault.Unreadable: // it was sealed with another key
		return nil, nil
	case err != nil || len(found) == 0:
		return nil, err
	}
	return found[0].Value, nil
}

// Set implements login.Store.
func (s *journalLogins) Set(ctx context.Context, key string, value []byte) error {
	j, at, err := s.open(key, "login")
	if err == nil {
		_, err = j.Keep(ctx, at, value, loginLife, false)
	}
	return err
}

// Delete implements login.Store.
func (s *journalLogins) Delete(ctx context.Context, key string) error {
	j, at, err := s.open(key, "login")
	if err == nil {
		err = j.RemoveStates(ctx, at.Owner, at.Space)
	}
	return err
}

// Lock implements login.Store, across all processes of the database.
func (s *journalLogins) Lock(ctx context.Context, key string) (unlock func(), err error) {
	j, at, err := s.open(key, "lock")
	if err != nil {
		return nil, err
	}
	for {
		kept, err := j.Keep(ctx, at, []byte("{}"), lockLife, true)
		if err != nil {
			return nil, err
		}
		if kept {
			return func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockLife)
				defer cancel()
				_ = j.RemoveStates(ctx, at.Owner, at.Space) // else it ends by itself
			}, nil
		}
		select {
		case <-time.After(lockPause):
		case <-ctx.Done():
			return nil, fault.New(fault.Timeout, "another process is renewing the login, and takes long: try again")
		}
	}
}

// Kind implements login.Store.
func (*journalLogins) Kind() string { return "journal" }
