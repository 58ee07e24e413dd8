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

// TestMain runs the tests in the repository's root folder, where the command runs.
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

// newDist writes a folder like that of goreleaser, with texts in place of programs.
func newDist(t *testing.T) (folder string) {
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
	for _, p := range platforms {
		add(p.goos, p.goarch)
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

// TestManuals checks that each command has a page, and that the files exist that .goreleaser.yaml installs.
func TestManuals(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "build")
	for range 2 { // the second run replaces the files of the first
		if err := manuals(folder); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	var addPages func(*cobra.Command)
	addPages = func(command *cobra.Command) {
		want = append(want, strings.ReplaceAll(command.CommandPath(), " ", "-")+".1")
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
				addPages(sub)
			}
		}
	}
	addPages(cli.Commands(nil))
	slices.Sort(want)
	var got []string
	pages, err := os.ReadDir(filepath.Join(folder, "man"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		got = append(got, page.Name())
		if text := read(t, folder, "man", page.Name()); !strings.Contains(text, `"onecall `+cli.Release+`"`) {
			t.Errorf("%s lacks the version", page.Name())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	for _, file := range regexp.MustCompile(`src: build/([^*,]+),`).FindAllStringSubmatch(read(t, ".goreleaser.yaml"), -1) {
		if read(t, folder, file[1]) == "" {
			t.Errorf("%s is empty", file[1])
		}
	}
	if unit := read(t, folder, "systemd", "onecall.service"); !strings.Contains(unit, "\nExecStart=/usr/bin/onecall serve ") ||
		strings.Contains(unit, "/usr/local") {
		t.Errorf("the unit does not start /usr/bin/onecall:\n%s", unit)
	}
}

// packageManifest is the content of package.json.
type packageManifest struct {
	Name, Version, License, MCPName string
	OS, CPU, Files                  []string
	Bin, Scripts                    map[string]string
	OptionalDependencies            map[string]string
}

func packages(t *testing.T, dist string) map[string]packageManifest {
	t.Helper()
	if err := npm(dist); err != nil {
		t.Fatal(err)
	}
	folders, err := os.ReadDir(filepath.Join(dist, "npm"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]packageManifest{}
	for _, folder := range folders {
		var manifest packageManifest
		if err := readJSON(filepath.Join(dist, "npm", folder.Name(), "package.json"), &manifest); err != nil {
			t.Fatal(err)
		}
		all[folder.Name()] = manifest
	}
	return all
}

// TestNPM checks that the main package depends on the package of each platform, in the same version, and that installing them runs
// nothing.
func TestNPM(t *testing.T) {
	t.Parallel()
	dist := newDist(t)
	all := packages(t, dist)
	mainManifest := all["onecall"]
	if len(all) != len(platforms)+1 || len(mainManifest.OptionalDependencies) != len(platforms) {
		t.Fatalf("%d packages, want %d; the main one depends on %v", len(all), len(platforms)+1, mainManifest.OptionalDependencies)
	}
	for folder, manifest := range all {
		if manifest.Version != "1.2.3" || manifest.License != "Apache-2.0" || len(manifest.Scripts) > 0 {
			t.Errorf("%s: want the version 1.2.3, the license Apache-2.0 and no scripts: %+v", folder, manifest)
		}
		read(t, dist, "npm", folder, "LICENSE")
	}
	for _, p := range platforms {
		folder := "onecall-" + p.os + "-" + p.cpu
		manifest := all[folder]
		if !slices.Equal(manifest.OS, []string{p.os}) || !slices.Equal(manifest.CPU, []string{p.cpu}) ||
			mainManifest.OptionalDependencies[manifest.Name] != "1.2.3" {
			t.Errorf("%s: want the os %s, the cpu %s and a dependency on it: %+v", folder, p.os, p.cpu, manifest)
		}
		program := filepath.Join(dist, "npm", folder, "bin", "onecall"+extension(p.goos))
		if text := read(t, program); text != "program for "+p.goos+" "+p.goarch {
			t.Errorf("%s contains %q, want the program for %s %s", folder, text, p.goos, p.goarch)
		}
		if info, err := os.Stat(program); err != nil || info.Mode().Perm() != executable {
			t.Errorf("%s: got mode %v, %v, want %v", program, info.Mode(), err, os.FileMode(executable))
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
		t.Error("npm made a package without its program")
	}
	if err := write(program, "program", executable); err != nil {
		t.Fatal(err)
	}
	all := packages(t, dist)
	if want := map[string]string{"@onecall-mcp/onecall-linux-arm64": "1.2.3"}; len(all) != 2 ||
		fmt.Sprint(all["onecall"].OptionalDependencies) != fmt.Sprint(want) {
		t.Errorf("packages %v, want onecall and onecall-linux-arm64", all)
	}
}

// TestBundle checks that the bundle holds the program that the manifest starts on each system, and that it is executable.
func TestBundle(t *testing.T) {
	t.Parallel()
	dist := newDist(t)
	if err := bundle(dist); err != nil {
		t.Fatal(err)
	}
	type systemConfig struct{ Command string }
	var manifest struct {
		Version string
		Server  struct {
			EntryPoint string `json:"entry_point"`
			Config     struct {
				systemConfig
				Args      []string
				Overrides map[string]systemConfig `json:"platform_overrides"`
			} `json:"mcp_config"`
		}
		Compatibility struct{ Platforms []string }
	}
	if err := readJSON(filepath.Join(dist, "mcpb", "manifest.json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Version != "1.2.3" {
		t.Errorf("version %q, want 1.2.3", manifest.Version)
	}
	config := manifest.Server.Config
	commands := map[string]string{"linux": config.Command}
	for system, override := range config.Overrides {
		commands[system] = override.Command
	}
	for _, system := range manifest.Compatibility.Platforms {
		path, ok := strings.CutPrefix(commands[system], "${__dirname}/")
		if !ok {
			t.Errorf("%s: the command is %q, want a path in ${__dirname}", system, commands[system])
			continue
		}
		if info, err := os.Stat(filepath.Join(dist, "mcpb", path)); err != nil || info.Mode().Perm() != executable {
			t.Errorf("%s: the program is missing or not executable: %v", system, err)
		}
	}
	if text := read(t, dist, "mcpb", "server", "onecall-darwin"); text != "program for darwin all" {
		t.Errorf("the program for macOS contains %q, want program for darwin all", text)
	}
	for _, word := range regexp.MustCompile(`onecall-linux-\w+`).FindAllString(read(t, dist, "mcpb", manifest.Server.EntryPoint), -1) {
		read(t, dist, "mcpb", "server", word)
	}
}

// TestUsage checks that a wrong command line is an error.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"publish"}, {"npm"}, {"registry", "dist"}, {"version", "1"},
		{"npm", filepath.Join(t.TempDir(), "none")}} {
		if err := run(args); err == nil {
			t.Errorf("run(%q) returned no error", args)
		}
	}
}

// TestTemplates checks that templates have no unknown variables, and that JSON templates are valid.
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
		if unknown := regexp.MustCompile(`\$[A-Z]+\b`).FindString(text); unknown != "" {
			t.Errorf("%s has the unknown variable %s", path, unknown)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
