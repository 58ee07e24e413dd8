package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// toolList is what tools --json answers.
type toolList struct {
	Sources   []toolSource   `json:"sources"`
	Functions []toolFunction `json:"functions"`
}

type toolSource struct {
	Name      string `json:"name"`
	State     string `json:"state"`
	Functions int    `json:"functions"`
}

type toolFunction struct {
	Name        string `json:"name"`
	Source      string `json:"source"`
	Effect      string `json:"effect"`
	Tier        string `json:"tier"`
	Signature   string `json:"signature"`
	Tokens      int    `json:"tokens"` // of signature and description
	Description string `json:"description"`
}

// stateReady is the state of a source whose functions can be called.
const stateReady = "ready"

func newToolsCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools [QUERY]",
		Short: "Show the functions, their signatures and what they cost in tokens",
		Long:  "Show the functions whose names or descriptions hold all words of QUERY; without it, all.",
		RunE: func(_ *cobra.Command, args []string) (err error) {
			a, err := c.open(tape{})
			if err != nil {
				return err
			}
			defer a.closeInto(&err)
			query := strings.Join(args, " ")
			list := a.tools(strings.Fields(strings.ToLower(query)))
			if len(list.Functions) == 0 {
				c.note("no function matches %q%s", query, a.nearestNames(query))
			}
			if asJSON {
				return c.writeValue(list)
			}
			return c.writeTable(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

// tools lists the functions that hold all the words, which are in lower case, and every source.
func (a *app) tools(words []string) *toolList {
	list := &toolList{Sources: []toolSource{}, Functions: []toolFunction{}}
	for _, entry := range a.functions.All() {
		spec := entry.Spec()
		i := slices.IndexFunc(list.Sources, func(s toolSource) bool { return s.Name == spec.Source() })
		if i < 0 {
			i = len(list.Sources)
			list.Sources = append(list.Sources, toolSource{Name: spec.Source(), State: stateReady})
		}
		list.Sources[i].Functions++
		if holdsAll(strings.ToLower(spec.Name+" "+spec.Description), words) {
			list.Functions = append(list.Functions, a.tool(entry))
		}
	}
	return list
}

func (a *app) tool(entry *steps.Entry) toolFunction {
	spec, signature := entry.Spec(), entry.Signature()
	return toolFunction{
		Name: spec.Name, Source: spec.Source(), Effect: spec.Effect.String(), Tier: spec.MinimumTier().String(),
		Signature: signature, Description: spec.Description,
		Tokens: a.counter.Count([]byte(signature+"\n"+spec.Description), -1),
	}
}

func holdsAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (a *app) nearestNames(query string) string {
	var names []string
	for _, entry := range a.functions.All() {
		names = append(names, entry.Spec().Name)
	}
	near := fault.Nearest(query, names, 3)
	if len(near) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(near, ", ") + "?"
}

func (s *streams) writeTable(list *toolList) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(list.Functions) > 0 {
		fmt.Fprintln(table, "TOKENS\tEFFECT\tFUNCTION")
	}
	for _, fn := range list.Functions {
		fmt.Fprintf(table, "%d\t%s\t%s\n\t\t%s\n", fn.Tokens, fn.Effect, printable(fn.Signature), printable(fn.Description))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return s.writeText(b.Bytes())
}

// writeValue answers a value as JSON.
func (s *streams) writeValue(value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	return s.writeJSON(b.Bytes())
}
