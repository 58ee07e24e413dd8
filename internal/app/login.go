package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// Account is a configured server that may require a login.
type Account struct {
	Name string // its name in the configuration

	options  *login.Options
	scrubber *secret.Scrubber
}

// Accounts returns the sources with logins: the enabled HTTP servers of the configuration, and what this machine's user logs in to for its
// own calls. name "": all, otherwise only the one called name. The redactor learns the configuration's secrets. The caller calls closeAll
// in the end. Accounts returns a *config.Error for an invalid configuration, and bad_request if there is no such source.
func Accounts(ctx context.Context, o *Options, name string) (all []Account, closeAll func() error, err error) {
	config, faults := config.Load(o.Config)
	if len(faults) > 0 {
		return nil, nil, config.Refused(faults)
	}
	o.Redactor.learn(config.Secrets)
	own := ownAccounts(config, name)
	if name == "" || len(own) == 0 {
		if all, err = accountsOf(config, name); err != nil || len(own) == 0 {
			return all, func() error { return nil }, err
		}
	}
	options := *o
	options.NoSources = true
	a, err := Open(ctx, &options) // its journal has these logins
	if err != nil {
		return nil, nil, err
	}
	for _, one := range own {
		if one.options = a.loginOf(one.source, ""); one.options != nil {
			one.scrubber = a.scrubber
			all = append(all, one.Account)
		}
	}
	return all, a.Close, nil
}

// ownAccount is an account of callers.
type ownAccount struct {
	Account
	source string
}

// ownAccounts returns what callers log in to, without options: all if name is "", otherwise the one called name.
func ownAccounts(c *config.File, name string) (own []ownAccount) {
	add := func(written, source string, a *config.Auth) {
		if a.LogsIn() && (name == "" || name == written || name == source) {
			own = append(own, ownAccount{Account{Name: written}, source})
		}
	}
	for i := range c.MCPServers {
		if entry := &c.MCPServers[i]; !entry.Config.Off() {
			add(entry.Name, entry.Source(), entry.Config.Auth)
		}
	}
	for i := range c.OpenAPI {
		add(c.OpenAPI[i].Name, c.OpenAPI[i].Source(), c.OpenAPI[i].Config.Own)
	}
	for i := range c.HTTP.Endpoints {
		one := "http." + c.HTTP.Endpoints[i].Name
		add(one, one, c.HTTP.Endpoints[i].Config.Auth)
	}
	return own
}

// accountsOf returns the accounts of onecall itself, as Accounts does.
func accountsOf(config *config.File, name string) ([]Account, error) {
	var all []Account
	var names []string
	for i := range config.MCPServers {
		entry := &config.MCPServers[i]
		matches := name != "" && (entry.Name == name || entry.Source() == name)
		switch {
		case entry.Config.URL == nil && matches:
			return nil, fault.New(fault.BadRequest, "%s is started by a command, so it has no login: set its credentials under env", name)
		case entry.Config.Auth != nil && matches:
			return nil, fault.New(fault.BadRequest, "%s has no login: auth says whose credentials its calls carry", name)
		case entry.Config.Off() && matches:
			return nil, fault.New(fault.BadRequest, "%s is disabled in the configuration", name)
		case entry.Config.URL == nil || entry.Config.Off() || entry.Config.Auth != nil:
			continue
		}
		names = append(names, entry.Name)
		if name != "" && !matches {
			continue
		}
		options, err := loginOptions(entry.Source(), &entry.Config)
		unset := config.Unset[fault.Key("/mcpServers", entry.Name)]
		switch {
		case err != nil && unset != nil && matches:
			return nil, config.Refused([]*fault.Error{config.FaultAt("", unset)})
		case err != nil && unset != nil: // its address is not known; the others work without it
			continue
		case err != nil:
			return nil, config.Refused([]*fault.Error{config.FaultAt(fault.Key("/mcpServers", entry.Name)+"/url", err)})
		}
		all = append(all, Account{entry.Name, options, secret.New(config.Secrets)})
	}
	if name != "" && len(all) == 0 {
		return nil, unknownAccount(name, config.Path, names)
	}
	return all, nil
}

func unknownAccount(name, path string, names []string) error {
	if path == "" {
		return fault.New(fault.BadRequest, "no server %s: there is no configuration; onecall init writes one", name)
	}
	near := fault.Nearest(name, names, 3)
	switch {
	case len(near) > 0:
		return fault.New(fault.BadRequest, "no server %s with a url in %s: did you mean %s?", name, path, strings.Join(near, ", "))
	case len(names) == 0:
		return fault.New(fault.BadRequest, "no server %s: none in %s has a url", name, path)
	}
	return fault.New(fault.BadRequest, "no server %s with a url in %s: those with one are %s", name, path, strings.Join(names, ", "))
}

// Login logs in interactively, as login.Login does, and returns the kind of store that holds the login. Errors contain no secrets.
func (a *Account) Login(ctx context.Context, ui login.UI) (storedIn string, err error) {
	err = login.Login(ctx, a.options, ui)
	return a.options.Store.Kind(), a.scrubbed(err)
}

// Logout revokes and deletes the login, as login.Logout does. Errors contain no secrets.
func (a *Account) Logout(ctx context.Context) error {
	return a.scrubbed(login.Logout(ctx, a.options))
}

// State returns the state of the login, as login.Status does. Errors contain no secrets.
func (a *Account) State(ctx context.Context) (login.State, error) {
	state, err := login.Status(ctx, a.options)
	return state, a.scrubbed(err)
}

func (a *Account) scrubbed(err error) error {
	if f, coded := fault.As(err); coded {
		return steps.ScrubFault(a.scrubber, f)
	}
	return err
}

// loginFolder returns the folder that holds the locks of logins, and the logins themselves if they are in a file.
func loginFolder() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "there is no folder for logins: %v", textfile.Cause(err))
	}
	return filepath.Join(folder, "onecall", "logins"), nil
}

// loginOptions returns the options of a login to a server with a URL. Their HTTP client reaches public hosts and the hosts that the entry
// names.
func loginOptions(source string, s *config.MCPServer) (*login.Options, error) {
	folder, err := loginFolder()
	if err != nil {
		return nil, err
	}
	o := &login.Options{Source: source, ServerURL: config.Or(s.URL, ""), Store: login.Auto(folder), ClientName: "onecall"}
	urls := []string{o.ServerURL}
	if c := s.OAuth; c != nil {
		o.ClientID, o.ClientSecret, o.Scopes = config.Or(c.ClientID, ""), config.Or(c.ClientSecret, ""), c.Scopes
		o.RedirectPort, o.AuthServer = config.Or(c.CallbackPort, 0), config.Or(c.AuthServer, "")
		if o.AuthServer != "" {
			urls = append(urls, o.AuthServer)
		}
	}
	rules, err := egress.AnyPublic().WithURLs(urls...)
	if err != nil {
		return nil, err
	}
	o.HTTPClient = rules.Client(nil)
	return o, nil
}
