package cli

import (
	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/auth"
)

func newTokenCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "token [NAME]",
		Short: "Make a token for a client of serve --http",
		Long: "Make a token for a client of onecall serve --http. NAME identifies the client, also in logs; the default is client.\n" +
			"The token goes to stdout and is not stored: give it to the client, which sends it as Authorization: Bearer. An entry\n" +
			"with the token's hash goes to stderr: add it to access.tokens in the server's configuration. The client may only read,\n" +
			"unless you change the tier in the entry.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "client"
			if len(args) > 0 {
				name = args[0]
			}
			return c.makeToken(name, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON with name, token and sha256, and write no entry to stderr")
	return cmd
}

// tokenAnswer is the answer of auth token --json.
type tokenAnswer struct {
	Name   string `json:"name"`
	Token  string `json:"token"`
	SHA256 string `json:"sha256"` // the SHA-256 of the token's text, in hex
}

// makeToken makes a token and writes it, with its entry for the configuration.
func (c *cli) makeToken(name string, asJSON bool) error {
	text, entry, err := auth.NewToken(name)
	if err != nil {
		return err
	}
	answer := tokenAnswer{entry.Name, text, entry.SHA256}
	if asJSON {
		return c.writeValue(answer)
	}
	if err := c.writeText([]byte(answer.Token + "\n")); err != nil {
		return err
	}
	c.noticef("The token is not stored. Add its entry to access.tokens in the server's configuration:\n\n"+
		"    - {name: %s, sha256: %q, tier: read}\n", jsonText(answer.Name), answer.SHA256)
	return nil
}
