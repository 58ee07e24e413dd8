package app

import (
	"os"
	"path/filepath"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/egress"
	"github.com/onecall-mcp/onecall/internal/login"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

// loginFolder is where logins are kept, or what says where they are.
func loginFolder() (string, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "there is no folder for logins: %v", textfile.Cause(err))
	}
	return filepath.Join(folder, "onecall", "logins"), nil
}

// LoginOptions are those of a login to a server that has a URL. The client that they hold reaches the hosts that the
// entry names, and public ones.
func LoginOptions(source string, s *config.MCPServer) (*login.Options, error) {
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
