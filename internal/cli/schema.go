package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
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
		Args: cobra.MatchAll(requireArg("one of chain, answer, config"), cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error {
			if schemas[args[0]] != nil {
				return nil
			}
			what := fmt.Sprintf("there is no schema %s", fault.Quote(fault.Clip(args[0], 60)))
			if near := fault.Nearest(args[0], cmd.ValidArgs, 1); len(near) > 0 {
				what += ": did you mean " + near[0] + "?"
			}
			return wrongUse(cmd, what)
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			var compact bytes.Buffer
			if err := json.Compact(&compact, schemas[args[0]]()); err != nil {
				return err
			}
			return c.writeJSON(compact.Bytes())
		},
	}
}
