package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/internal/cli"
)

// TestMain runs the tests in the repository's root folder, as the command is run.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// distributed is a folder as goreleaser leaves it, with texts in place of programs.
func distributed(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	list := []artifact{{Type: "Archive", Path: "none", GOOS: "linux", GOARCH: "amd64"}}
	add := func(goos, goarch string) {
		path := filepath.Join(folder, goos+"_"+goarch, "onecall"+extension(goos))
		if err := write(path, "program for "+goos+" "+goarch, executable); err != nil {
			t.Fatal(err)
		}
		list = append(list, artifact{binary, path, goos, goarch})
	}
	for _, to := range targets {
		add(to.goos, to.goarch)
	}
	add("darwin", "all")
	if err := writeJSON(filepath.Join(folder, artifactsFile), list); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(folder, metadataFile), metadata{"1.2.3"}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestManuals: each command has a page, and what packages install by name is there under that name.
func TestManuals(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "build")
	for range 2 { // what an earlier run left is gone
		if err := manuals(folder); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	var name func(*cobra.Command)
	name = func(command *cobra.Command) {
		want = append(want, strings.ReplaceAll(command.CommandPath(), " ", "-")+".1")
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
				name(sub)
			}
		}
	}
	name(cli.Commands(nil))
	slices.Sort(want)
	var got []string
	pages, err := os.ReadDir(filepath.Join(folder, "man"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		got = append(got, page.Name())
		if text := read(t, folder, "man", page.Name()); !strings.Contains(text, `"onecall `+cli.Release+`"`) {
			t.Errorf("%s does not say of which version it is", page.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("there are pages %q, want %q", got, want)
	}
	for _, file := range regexp.MustCompile(`src: build/([^*,]+),`).FindAllStringSubmatch(read(t, ".goreleaser.yaml"), -1) {
		if read(t, folder, file[1]) == "" {
			t.Errorf("%s is empty", file[1])
		}
	}
	if unit := read(t, folder, "systemd", "onecall.service"); !strings.Contains(unit, "\nExecStart=/usr/bin/onecall serve ") ||
		strings.Contains(unit, "/usr/local") {
		t.Errorf("the unit does not start the program of the package:\n%s", unit)
	}
}

// aboutPackage is what package.json says.
type aboutPackage struct {
	Name, Version, License, MCPName string
	OS, CPU, Files                  []string
	Bin, Scripts                    map[string]string
	OptionalDependencies            map[string]string
}

func packages(t *testing.T, dist string) map[string]aboutPackage {
	t.Helper()
	if err := npm(dist); err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(dist, "npm"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]aboutPackage{}
	for _, folder := range folders {
		var about aboutPackage
		if err := readJSON(filepath.Join(dist, "npm", folder.Name(), "package.json"), &about); err != nil {
			t.Fatal(err)
		}
		all[folder.Name()] = about
	}
	return all
}

// TestNPM: the main package depends on the package of each platform, in the same version, and nothing runs when they are installed.
func TestNPM(t *testing.T) {
	t.Parallel()
	dist := distributed(t)
	all := packages(t, dist)
	main := all["onecall"]
	if len(all) != len(targets)+1 || len(main.OptionalDependencies) != len(targets) {
		t.Fatalf("there are %d packages, and the main one depends on %v", len(all), main.OptionalDependencies)
	}
	for folder, about := range all {
		if about.Version != "1.2.3" || about.License != "Apache-2.0" || len(about.Scripts) > 0 {
			t.Errorf("%s: %+v", folder, about)
		}
		read(t, dist, "npm", folder, "LICENSE")
	}
	for _, to := range targets {
		folder := "onecall-" + to.os + "-" + to.cpu
		about := all[folder]
		if !slices.Equal(about.OS, []string{to.os}) || !slices.Equal(about.CPU, []string{to.cpu}) ||
			main.OptionalDependencies[about.Name] != "1.2.3" {
			t.Errorf("%s: %+v", folder, about)
		}
		program := filepath.Join(dist, "npm", folder, "bin", "onecall"+extension(to.goos))
		if text := read(t, program); text != "program for "+to.goos+" "+to.goarch {
			t.Errorf("%s has the %s", folder, text)
		}
		if info, err := os.Stat(program); err != nil || info.Mode().Perm() != executable {
			t.Errorf("%s: %v, %v", program, info.Mode(), err)
		}
	}
}

func TestNPMOfOnePlatform(t *testing.T) {
	t.Parallel()
	dist := t.TempDir()
	program := filepath.Join(dist, "onecall")
	for file, value := range map[string]any{metadataFile: metadata{"1.2.3"}, artifactsFile: []artifact{{binary, program, "linux", "arm64"}}} {
		if err := writeJSON(filepath.Join(dist, file), value); err != nil {
			t.Fatal(err)
		}
	}
	if err := npm(dist); err == nil {
		t.Error("the program is not there, and its package is made")
	}
	if err := write(program, "program", executable); err != nil {
		t.Fatal(err)
	}
	all := packages(t, dist)
	if want := map[string]string{"@onecall-mcp/onecall-linux-arm64": "1.2.3"}; len(all) != 2 ||
		fmt.Sprint(all["onecall"].OptionalDependencies) != fmt.Sprint(want) {
		t.Errorf("there are %v", all)
	}
}

// TestBundle: what the manifest starts on each system is in the bundle, and can be executed.
func TestBundle(t *testing.T) {
	t.Parallel()
	dist := distributed(t)
	if err := bundle(dist); err != nil {
		t.Fatal(err)
	}
	type start struct{ Command string }
	var manifest struct {
		Version string
		Server  struct {
			EntryPoint string `json:"entry_point"`
			Config     struct {
				start
				Args      []string
				Overrides map[string]start `json:"platform_overrides"`
			} `json:"mcp_config"`
		}
		Compatibility struct{ Platforms []string }
	}
	if err := readJSON(filepath.Join(dist, "mcpb", "manifest.json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Version != "1.2.3" {
		t.Errorf("the version is %q", manifest.Version)
	}
	config := manifest.Server.Config
	starts := map[string]string{"linux": config.Command}
	for system, by := range config.Overrides {
		starts[system] = by.Command
	}
	for _, system := range manifest.Compatibility.Platforms {
		path, ok := strings.CutPrefix(starts[system], "${__dirname}/")
		if !ok {
			t.Errorf("on %s, %q is started", system, starts[system])
			continue
		}
		if info, err := os.Stat(filepath.Join(dist, "mcpb", path)); err != nil || info.Mode().Perm() != executable {
			t.Errorf("on %s: %v", system, err)
		}
	}
	if text := read(t, dist, "mcpb", "server", "onecall-darwin"); text != "program for darwin all" {
		t.Errorf("on macOS, the %s is started", text)
	}
	for _, word := range regexp.MustCompile(`onecall-linux-\w+`).FindAllString(read(t, dist, "mcpb", manifest.Server.EntryPoint), -1) {
		read(t, dist, "mcpb", "server", word)
	}
}

// TestUsage: a command line that is wrong says how it is right, and does nothing.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"publish"}, {"npm"}, {"registry", "dist"}, {"version", "1"},
		{"npm", filepath.Join(t.TempDir(), "none")}} {
		if err := run(args); err == nil {
			t.Errorf("%q is done", args)
		}
	}
}

// TestTemplates: every file that is made from a template is JSON, without a variable left over.
func TestTemplates(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(templates, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text := strings.ReplaceAll(distribution{version: "1.2.3"}.template(path), "$BUNDLE", "")
		if filepath.Ext(path) == ".json" && !json.Valid([]byte(text)) {
			t.Errorf("%s is not JSON", path)
		}
		if left := regexp.MustCompile(`\$[A-Z]+\b`).FindString(text); left != "" {
			t.Errorf("%s still has %s", path, left)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
