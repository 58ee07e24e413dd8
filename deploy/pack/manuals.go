package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/onecall-mcp/onecall/internal/cli"
)

// manuals writes to a folder what packages install in addition to the program: man/onecall.1 and a page for each command,
// completions/onecall.{bash,zsh,fish,ps1}, and systemd/onecall.service. SOURCE_DATE_EPOCH is the date of the pages.
func manuals(folder string) error {
	root := cli.Commands(nil)
	root.DisableAutoGenTag = true
	pages := filepath.Join(folder, "man")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(pages, 0o755); err != nil {
		return err
	}
	header := &doc.GenManHeader{Title: "ONECALL", Section: "1", Source: "onecall " + cli.Release, Manual: "onecall"}
	if err := doc.GenManTree(root, header, pages); err != nil {
		return err
	}
	if err := writeCompletions(root, filepath.Join(folder, "completions")); err != nil {
		return err
	}
	return writeUnit(filepath.Join(folder, "systemd"))
}

func writeCompletions(root *cobra.Command, folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	withDescriptions := true
	for name, write := range map[string]func(string) error{
		"onecall.bash": func(file string) error { return root.GenBashCompletionFileV2(file, withDescriptions) },
		"onecall.zsh":  root.GenZshCompletionFile,
		"onecall.fish": func(file string) error { return root.GenFishCompletionFile(file, withDescriptions) },
		"onecall.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return nil
}

// writeUnit writes the systemd unit for packages, which install the program in /usr/bin.
func writeUnit(folder string) error {
	text, err := os.ReadFile(filepath.Join("deploy", "onecall.service"))
	if err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	packaged := strings.ReplaceAll(string(text), "/usr/local/bin/", "/usr/bin/")
	return os.WriteFile(filepath.Join(folder, "onecall.service"), []byte(packaged), plain)
}
