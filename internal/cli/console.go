package cli

import (
	"html"
	"net/url"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/textfile"
)

func newConsoleCommand(c *cli) *cobra.Command {
	var address string
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show runs in a browser, and approve, resume and undo them there",
		Long: "Show runs in a browser, until interrupted. The address that opens works once, for one browser on this machine. For other people\n" +
			"and machines, onecall serve --http … --console shows it to those who have tokens.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file := ""
			defer func() { _ = os.Remove(file) }() // without a file there is nothing to remove
			return app.ServeConsole(cmd.Context(), c.options(app.Options{}), &app.ConsoleOptions{Address: address, Flags: c.configFlag(),
				User: userName(),
				Opened: func(link string) {
					c.noticef("Open this page, which lets in the first browser that opens it:\n\n    %s\n", link)
					if noBrowser || !hasBrowser() {
						return
					}
					var err error
					if link, file, err = hideLink(link); err != nil {
						c.noticef("no browser is started, since no file can be written that leads it there: %v", textfile.Cause(err))
						return
					}
					c.openBrowser(link)
				}})
		},
		Annotations: map[string]string{serviceAnnotation: "yes"},
	}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:0", "the loopback `address` to serve on (default: a free port)")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "show the URL only")
	return cmd
}

// hideLink returns an address for the command line of a browser, which all users of the machine may read: that of a file which only this
// user reads, and which leads to link. The caller removes the file, if it is not "". It is in the home
// folder, and not hidden, since browsers that
// are confined to it (as snaps are) read no other.
func hideLink(link string) (address, file string, err error) {
	if runtime.GOOS == "windows" { // there nobody else reads command lines, except administrators
		return link, "", nil
	}
	folder, err := os.UserHomeDir()
	if err != nil {
		return "", "", err
	}
	f, err := os.CreateTemp(folder, "onecall-console-*.html") // with mode 0600
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	link = html.EscapeString(link)
	_, err = f.WriteString(`<!doctype html><meta http-equiv="refresh" content="0; url=` + link + `">` +
		`<a href="` + link + `">The console</a>` + "\n")
	return (&url.URL{Scheme: "file", Path: f.Name()}).String(), f.Name(), err
}
