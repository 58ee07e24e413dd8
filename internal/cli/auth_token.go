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
		Long: "Make a token for a client of onecall serve --http. The token goes to stdout, and is not stored: give it to the client,\n" +
			"which sends it as Authorization: Bearer. The entry for access.tokens in the server's configuration goes to stderr; it\n" +
			"holds the token's hash. A token may only read, unless the entry sets another tier.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "client"
			if len(args) > 0 {
				name = args[0]
			}
			return c.makeToken(name, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON, with name, token and sha256")
	return cmd
}

// tokenAnswer is the answer of auth token --json.
type tokenAnswer struct {
	Name   string `json:"name"`
	Token  string `json:"token"`
	SHA256 string `json:"sha256"` // the SHA-256 of the token's text, in hex
}

// makeToken makes a token and writes it.
func (c *cli) makeToken(name string, asJSON bool) error {
	text, line, err := auth.NewToken(name)
	if err != nil {
		return err
	}
	token := tokenAnswer{line.Name, text, line.SHA256}
	if asJSON {
		return c.writeValue(token)
	}
	if err := c.writeText([]byte(token.Token + "\n")); err != nil {
		return err
	}
	c.noticef("The token is not stored. Its entry for access.tokens of the configuration:\n\n    - {name: %s, sha256: %q, tier: read}\n",
		jsonText(token.Name), token.SHA256)
	return nil
}
