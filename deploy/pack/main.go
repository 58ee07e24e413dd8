// Command pack makes the parts of a release except its archives: manual pages and completions, packages for npm, the MCP bundle and the
// entry of the MCP registry. It reads the folder that goreleaser writes (dist), or one that its own build command makes.
//
//	go run ./deploy/pack version                prints the version that a release of this source gets
//	go run ./deploy/pack manuals FOLDER         writes manual pages, completions and the unit for packages
//	go run ./deploy/pack build DIST             builds onecall for this machine, as goreleaser does for all
//	go run ./deploy/pack npm DIST               writes DIST/npm: a folder for each package
//	go run ./deploy/pack mcpb DIST              writes DIST/mcpb: the folder that mcpb packs
//	go run ./deploy/pack registry DIST BUNDLE   writes DIST/server.json, with the checksum of the packed bundle
//
// Run it in the repository's root folder.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/onecall-mcp/onecall/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	commands := map[string]struct {
		args string
		do   func(args []string) error
	}{
		"version":  {"", func([]string) error { return printVersion() }},
		"manuals":  {"FOLDER", func(args []string) error { return manuals(args[0]) }},
		"build":    {"DIST", func(args []string) error { return build(args[0]) }},
		"npm":      {"DIST", func(args []string) error { return npm(args[0]) }},
		"mcpb":     {"DIST", func(args []string) error { return bundle(args[0]) }},
		"registry": {"DIST BUNDLE", func(args []string) error { return registry(args[0], args[1]) }},
	}
	if len(args) == 0 {
		return fmt.Errorf("no command: see go doc ./deploy/pack")
	}
	command, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("unknown command %q: see go doc ./deploy/pack", args[0])
	}
	if want := len(strings.Fields(command.args)); len(args)-1 != want {
		return fmt.Errorf("usage: go run ./deploy/pack %s %s", args[0], command.args)
	}
	return command.do(args[1:])
}

func printVersion() error {
	_, err := fmt.Println(cli.Release)
	return err
}
