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

// Account is a server of the configuration that may ask for a login.
type Account struct {
	Name string // in the configuration

	options  *login.Options
	scrubber *secret.Scrubber
}

// Accounts returns the servers behind HTTP in the configuration at path, or the one that is named. The redactor learns the
// configuration's secrets. Errors: a *config.Error, and bad_request when there is no such server.
func Accounts(path string, redactor *Redactor, named string) ([]Account, error) {
	config, faults := config.Load(path)
	if len(faults) > 0 {
		return nil, config.Refused(faults)
	}
	redactor.learn(config.Secrets)
	return accountsOf(config, named)
}

// accountsOf returns those of a configuration that was read.
func accountsOf(config *config.File, named string) ([]Account, error) {
	var all []Account
	var names []string
	for i := range config.MCPServers {
		entry := &config.MCPServers[i]
		is := named != "" && (entry.Name == named || entry.Source() == named)
		switch {
		case entry.Config.URL == nil && is:
			return nil, fault.New(fault.BadRequest, "%s has a command: such a server is given its credentials under env", named)
		case entry.Config.Off() && is:
			return nil, fault.New(fault.BadRequest, "%s is disabled in the configuration", named)
		case entry.Config.URL == nil || entry.Config.Off():
			continue
		}
		names = append(names, entry.Name)
		if named != "" && !is {
			continue
		}
		options, err := loginOptions(entry.Source(), &entry.Config)
		if err != nil {
			return nil, config.Refused([]*fault.Error{config.Under(fault.Key("/mcpServers", entry.Name)+"/url", err)})
		}
		all = append(all, Account{entry.Name, options, secret.New(config.Secrets)})
	}
	if named != "" && len(all) == 0 {
		return nil, unknownAccount(named, config.Path, names)
	}
	return all, nil
}

func unknownAccount(named, path string, names []string) error {
	if path == "" {
		return fault.New(fault.BadRequest, "no server %s: there is no configuration; onecall init writes one", named)
	}
	near := fault.Nearest(named, names, 3)
	switch {
	case len(near) > 0:
		return fault.New(fault.BadRequest, "no server %s with a url in %s: did you mean %s?", named, path, strings.Join(near, ", "))
	case len(names) == 0:
		return fault.New(fault.BadRequest, "no server %s: none in %s has a url", named, path)
	}
	return fault.New(fault.BadRequest, "no server %s with a url in %s: there are %s", named, path, strings.Join(names, ", "))
}

// Login logs in with a person, as login.Login does, and returns where the login is kept. No secret is in an error.
func (a *Account) Login(ctx context.Context, ui login.UI) (kept string, err error) {
	err = login.Login(ctx, a.options, ui)
	return a.options.Store.Kind(), a.scrubbed(err)
}

// Logout revokes and deletes the login, as login.Logout does. No secret is in an error.
func (a *Account) Logout(ctx context.Context) error {
	return a.scrubbed(login.Logout(ctx, a.options))
}

// State returns what is known of the login, as login.Status does. No secret is in an error.
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

// loginFolder is where logins are kept, or what says where they are.
func loginFolder() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "there is no folder for logins: %v", textfile.Cause(err))
	}
	return filepath.Join(folder, "onecall", "logins"), nil
}

// loginOptions are those of a login to a server that has a URL. The client that they hold reaches the hosts that the
// entry names, and public ones.
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
	rules, err := egress.Open().Naming(urls...)
	if err != nil {
		return nil, err
	}
	o.HTTPClient = rules.Client(nil)
	return o, nil
}
