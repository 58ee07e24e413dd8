package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/onecall-mcp/onecall/fault"
)

// examples show how to use each command. The error for wrong usage shows the first one.
var examples = map[string]string{
	"onecall": "onecall init                              find the servers of other programs\n" +
		"onecall tools                             see the functions\n" +
		"onecall run release.chain.json --dry-run  see what a chain would do",
	"run": "onecall run release.chain.json --set tag=v1.2\n" +
		"onecall run - < release.chain.json | jq .result\nonecall run *.chain.json --jobs 4",
	"check":   "onecall check release.chain.json\nonecall check --json",
	"fetch":   "onecall fetch oc1_… --mode paginated --page 2",
	"call":    "onecall call fs.grep pattern=TODO path=src",
	"tools":   "onecall tools\nonecall tools search files\nonecall tools fs.grep",
	"serve":   "onecall serve\nonecall serve --http 127.0.0.1:8080",
	"runs":    "onecall runs --status failed --since 24h\nonecall runs run_…",
	"resume":  "onecall resume run_… fixed.chain.json\nonecall resume run_… --assume 3=applied\nonecall resume --last",
	"undo":    "onecall undo run_…\nonecall undo --last",
	"approve": "onecall approve run_… --show\nonecall approve run_…",
	"stats":   "onecall stats --since 168h",
	"console": "onecall console\nonecall console --http 127.0.0.1:7700 --no-browser",
	"graph":   "onecall graph release.chain.json --out release.svg\nonecall graph --last --format mermaid",
	"new":     "onecall new release",
	"save":    "onecall save run_… release --param 0.tag=tag",
	"lock":    "onecall lock\nonecall lock --accept github.create_issue",
	"sign":    "onecall sign refund --key plans.key",
	"verify":  "onecall verify refund",
	"init":    "onecall init --dry-run",
	"doctor":  "onecall doctor\nonecall doctor --config ~/.config/onecall/onecall.yaml",
	"hook":    "onecall hook --config ~/.config/onecall/onecall.yaml < call.json",
	"schema":  "onecall schema chain > chain.schema.json",
	"login":   "onecall auth login github",
	"logout":  "onecall auth logout github",
	"token":   "onecall auth token ci",
}

// groups are the parts of the help.
var groups = []struct {
	title    string
	commands []string
}{
	{"Run", []string{"run", "call", "check", "fetch", "tools", "bench"}},
	{"Look back", []string{"runs", "resume", "approve", "undo", "diff", "graph", "stats", "console"}},
	{"Saved chains", []string{"list", "new", "save", "lock", "sign", "verify"}},
	{"Set up", []string{"init", "doctor", "auth", "schema", "hook", "version"}},
	{"Serve", []string{"serve", "worker"}},
}

// addGroups shows the commands of root in groups.
func addGroups(root *cobra.Command) {
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range root.Commands() {
			if slices.Contains(group.commands, cmd.Name()) {
				cmd.GroupID = group.title
			}
		}
	}
	root.SetHelpCommandGroupID("Set up")
}

// fitHelp breaks the lines of help between words, so that they fit a terminal.
func fitHelp(root *cobra.Command, width int) {
	flags := fmt.Sprintf("Flags.FlagUsagesWrapped %d", width)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages", flags))
	var fitLong func(cmd *cobra.Command)
	fitLong = func(cmd *cobra.Command) {
		paragraphs := strings.Split(cmd.Long, "\n\n")
		for i, text := range paragraphs {
			var b strings.Builder
			writeWrapped(&b, strings.ReplaceAll(text, "\n", " "), 0, width)
			paragraphs[i] = strings.TrimSuffix(b.String(), "\n")
		}
		cmd.Long = strings.Join(paragraphs, "\n\n")
		for _, sub := range cmd.Commands() {
			fitLong(sub)
		}
	}
	fitLong(root)
}

// addUsage sets the examples of cmd and of its subcommands, and makes errors about unknown flags suggest similar names.
func addUsage(cmd *cobra.Command) {
	if example := examples[cmd.Name()]; example != "" && cmd.Example == "" {
		cmd.Example = "  " + strings.ReplaceAll(example, "\n", "\n  ")
	}
	cmd.SetFlagErrorFunc(flagFault)
	for _, sub := range cmd.Commands() {
		addUsage(sub)
	}
}

// parseError matches the flag library's message about a malformed number.
var parseError = regexp.MustCompile(`strconv\.Parse(?:Int|Uint): parsing .*$`)

// flagFault returns the error of a wrong flag. For an unknown flag, the error suggests similar names.
func flagFault(cmd *cobra.Command, err error) error {
	text := err.Error()
	name, unknown := strings.CutPrefix(text, "unknown flag: --")
	if !unknown {
		return wrongUse(cmd, parseError.ReplaceAllString(text, "not a whole number, or too large"))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	slices.Sort(known)
	if near := fault.Nearest(name, known, 3); len(near) > 0 {
		text += ": did you mean --" + strings.Join(near, ", --") + "?"
	}
	return wrongUse(cmd, text)
}

// wrongUse returns an error about how a command was called, with the command's usage and its first example.
func wrongUse(cmd *cobra.Command, what string) error {
	text := what + "\nusage: " + cmd.UseLine()
	if first, _, _ := strings.Cut(examples[cmd.Name()], "\n"); first != "" {
		text += "\nfor example: " + first
	}
	return usageErrorf("%s", text)
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrongUse(cmd, fmt.Sprintf("%s takes no arguments: %s is one too many", cmd.CommandPath(), fault.Quote(fault.Clip(args[0], 60))))
	}
	return nil
}

// requireArg refuses a command line without arguments.
func requireArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return wrongUse(cmd, cmd.Name()+" needs "+what)
		}
		return nil
	}
}
