package cli

import (
	"bytes"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/internal/config"
)

func newSchemaCommand(c *cli) *cobra.Command {
	schemas := map[string]func() []byte{
		"chain":  chain.ChainSchema,
		"answer": chain.AnswerSchema,
		"config": config.Schema,
	}
	return &cobra.Command{
		Use:       "schema chain|answer|config",
		Short:     "Print a JSON Schema: of a chain, an answer or the configuration",
		ValidArgs: []string{"chain", "answer", "config"},
		Args:      cobra.MatchAll(requireArg("one of chain, answer, config"), cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		RunE: func(_ *cobra.Command, args []string) error {
			var compact bytes.Buffer
			if err := json.Compact(&compact, schemas[args[0]]()); err != nil {
				return err
			}
			return c.writeJSON(compact.Bytes())
		},
	}
}
