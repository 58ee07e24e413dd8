package cli

import (
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/app"
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
			return app.ServeConsole(cmd.Context(), c.options(app.Options{}), &app.ConsoleOptions{Address: address, Flags: c.configFlag(),
				User: userName(),
				Opened: func(url string) {
					c.noticef("Open this page, which lets in the first browser that opens it:\n\n    %s\n", url)
					if !noBrowser && hasBrowser() {
						c.openBrowser(url)
					}
				}})
		},
		Annotations: map[string]string{serviceAnnotation: "yes"},
	}
	cmd.Flags().StringVar(&address, "http", "127.0.0.1:0", "the loopback `address` to serve on (default: a free port)")
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "show the URL only")
	return cmd
}
