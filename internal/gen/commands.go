package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/cli"
	"github.com/onecall-mcp/onecall/internal/durable"
)

// commandsReference returns the page of all commands, as --help shows them. Cobra's own generator writes one file for each command,
// but people look for a flag without knowing its command.
func commandsReference() []byte {
	root := cli.Commands(func(context.Context, string, *durable.Options) (durable.Engine, error) {
		return nil, errors.ErrUnsupported
	})
	// The default is the value of $ONECALL_CONFIG, which differs from machine to machine.
	root.PersistentFlags().Lookup("config").DefValue = ""
	var b strings.Builder
	b.WriteString("# The commands\n\nGenerated from what `--help` shows. " +
		"[The command line](../command-line.md) explains them, with examples. " +
		"Every command also takes:\n\n" +
		"```text\n" + root.PersistentFlags().FlagUsages() + "```\n\n| command | |\n|---|---|\n")
	all := commands(root)
	for _, c := range all {
		fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range all {
		writeCommand(&b, c)
	}
	return []byte(b.String())
}

// commands returns the commands that can be run and have no subcommands, sorted by name. Hidden ones are left out.
func commands(under *cobra.Command) (all []*cobra.Command) {
	for _, c := range under.Commands() {
		if c.Runnable() && c.IsAvailableCommand() && !c.HasSubCommands() {
			all = append(all, c)
		}
		all = append(all, commands(c)...)
	}
	return all
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n```text\n%s\n", c.CommandPath(), escapeMarkdown(text), c.UseLine())
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		b.WriteString("\n" + flags.FlagUsages())
	}
	b.WriteString("```\n")
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```text\n%s\n```\n", c.Example)
	}
}

// escapeMarkdown escapes text that Markdown would change.
func escapeMarkdown(text string) string {
	return strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).Replace(text)
}
