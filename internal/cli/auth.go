package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cli/browser"
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

func newAuthCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Log in to sources that ask for it, and make tokens for clients",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var noBrowser, asJSON bool
	login := &cobra.Command{
		Use:   "login SOURCE",
		Short: "Log in to a server, with a browser",
		Long: "Log in to the server with that name in the configuration. The login page opens in a browser, and its URL is shown; then\n" +
			"the browser is redirected to a port on this machine. Over SSH, open the URL on the machine with your browser, with that\n" +
			"port forwarded: oauth.callbackPort in the configuration sets it. The login is stored in the keyring of the system, or\n" +
			"else in a file that only you can read; one of auth: {caller: login} is sealed in the journal, and counts for you alone.",
		Args: cobra.MatchAll(requireArg("the name of a server in the configuration"), cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.login(cmd.Context(), args[0], noBrowser) },
	}
	login.Flags().BoolVar(&noBrowser, "no-browser", false, "show the URL only")
	status := &cobra.Command{
		Use: "status [SOURCE]", Aliases: []string{"list"},
		Short: "Show one login, or all; exit status 1: SOURCE is not logged in",
		Args:  cobra.MaximumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.loginStatus(cmd.Context(), args, asJSON) },
	}
	status.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	logout := &cobra.Command{
		Use:   "logout SOURCE",
		Short: "Revoke a login, if the server supports that, and delete it",
		Args:  cobra.MatchAll(requireArg("the name of a server in the configuration"), cobra.MaximumNArgs(1)),
		RunE:  func(cmd *cobra.Command, args []string) error { return c.logout(cmd.Context(), args[0]) },
	}
	cmd.AddCommand(login, status, logout, newTokenCommand(c))
	return cmd
}

// accounts returns the HTTP servers in the configuration, or only the one with this name if it is not "".
func (c *cli) accounts(ctx context.Context, name string) (all []app.Account, closeAll func() error, err error) {
	all, closeAll, err = app.Accounts(ctx, c.options(app.Options{}), name)
	if err != nil {
		return nil, nil, opError{err}
	}
	return all, closeAll, nil
}

// showLoginFailure shows why a login failed, and returns an error with the exit status of err's code. An error without a code is not shown
// but returned as it is.
func (c *cli) showLoginFailure(err error) error {
	f, ok := fault.As(err)
	if !ok {
		return err
	}
	c.noticef("onecall: %s", textfile.Printable(f.Message))
	return exitError(f.Code.Exit())
}

func (c *cli) login(ctx context.Context, name string, noBrowser bool) (err error) {
	all, closeAll, err := c.accounts(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	store, err := all[0].Login(ctx, &loginUI{c.streams, !noBrowser && hasBrowser()})
	if err != nil {
		return c.showLoginFailure(err)
	}
	c.noticef("logged in to %s; the login is stored in the %s", textfile.Printable(all[0].Name), store)
	return nil
}

func (c *cli) logout(ctx context.Context, name string) (err error) {
	all, closeAll, err := c.accounts(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	if err := all[0].Logout(ctx); err != nil {
		return c.showLoginFailure(err)
	}
	c.noticef("logged out of %s", textfile.Printable(all[0].Name))
	return nil
}

// loginList is the answer of auth status --json.
type loginList struct {
	Sources []loginState `json:"sources"`
}

type loginState struct {
	Source        string     `json:"source"`
	LoggedIn      bool       `json:"loggedIn"`
	Renews        bool       `json:"renews"`            // whether the login is renewed without the user
	Expires       *time.Time `json:"expires,omitempty"` // when the access token expires
	Scopes        []string   `json:"scopes,omitempty"`
	MissingScopes []string   `json:"missingScopes,omitempty"` // scopes that the next login will ask for
	Issuer        string     `json:"issuer,omitempty"`
	Store         string     `json:"store,omitempty"`
	Error         string     `json:"error,omitempty"`
}

func (c *cli) loginStatus(ctx context.Context, args []string, asJSON bool) (err error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	all, closeAll, err := c.accounts(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	list := loginList{Sources: []loginState{}}
	var failed error
	for i := range all {
		state, err := loginStateOf(ctx, &all[i])
		if list.Sources = append(list.Sources, state); err != nil {
			failed = c.showLoginFailure(err)
		}
	}
	if asJSON {
		err = c.writeValue(list)
	} else {
		err = c.writeTable(list.table())
	}
	if err == nil && name != "" && failed == nil && !list.Sources[0].LoggedIn {
		failed = exitError(exitFailed)
	}
	return errors.Join(err, failed)
}

func loginStateOf(ctx context.Context, a *app.Account) (loginState, error) {
	got, err := a.State(ctx)
	state := loginState{Source: a.Name, LoggedIn: got.LoggedIn, Renews: got.Renews, Scopes: got.Scopes,
		MissingScopes: got.MissingScopes, Issuer: got.Issuer}
	if got.LoggedIn {
		state.Store = got.Store
	}
	if !got.Expires.IsZero() {
		expires := got.Expires.UTC().Truncate(time.Second)
		state.Expires = &expires
	}
	if f, ok := fault.As(err); ok {
		state.Error = f.Message
	}
	return state, err
}

func (l *loginList) table() *table {
	t := &table{columns: []column{{name: "SOURCE"}, {name: "LOGIN"}, {name: "EXPIRES"},
		{name: "STORE", extra: true}, {name: "ISSUER", extra: true}}}
	for _, s := range l.Sources {
		login, expires := "none", ""
		switch {
		case s.LoggedIn && s.Renews:
			login = "yes, renews itself"
		case s.LoggedIn:
			login = "yes"
		}
		if s.Expires != nil {
			expires = s.Expires.Format(time.RFC3339)
		}
		t.rows = append(t.rows, row{cells: []string{s.Source, login, expires, s.Store, s.Issuer}})
	}
	return t
}

// loginUI lets the user log in at this terminal.
type loginUI struct {
	*streams
	browser bool // a browser may be started
}

// Notice implements login.UI.
func (p *loginUI) Notice(text string) { p.noticef("%s", textfile.Printable(text)) }

// Open implements login.UI. It always shows the URL, because the browser that opens may not be the one that the user wants.
func (p *loginUI) Open(url string) error {
	p.noticef("Open this page to log in:\n\n    %s\n", textfile.Printable(url))
	if p.browser {
		p.openBrowser(url)
	}
	return nil
}

// openBrowser shows a page in the user's browser.
func (s *streams) openBrowser(url string) {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard // the browser's output is not part of an answer
	go func() {                                             // some commands that open a browser wait for it to exit
		if err := browser.OpenURL(url); err != nil {
			s.noticef("no browser could be started: open the page yourself")
		}
	}()
}

// hasBrowser reports whether the user would see a browser: not over SSH, and not without a display.
func hasBrowser() bool {
	set := func(name string) bool { return os.Getenv(name) != "" }
	if set("SSH_CONNECTION") || set("SSH_TTY") {
		return false
	}
	return slices.Contains([]string{"darwin", "windows"}, runtime.GOOS) || set("DISPLAY") || set("WAYLAND_DISPLAY")
}
