package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/proc"
	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// installTime bounds an installation.
const installTime = 3 * time.Minute

// install installs npm packages in the versions that the repository's tests use, and adds the versions to s. It returns the folder with
// node_modules: a new one in o.Tools, or the folder that ONECALL_TEST_NPM names, in which the tests' packages are installed already.
func install(ctx context.Context, o *report.Options, s *report.Section, folderName string, packages ...string) (folder string, err error) {
	text, err := os.ReadFile(filepath.Join(o.Root, "testdata/npm/package.json"))
	if err != nil {
		return "", err
	}
	var tested struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &tested); err != nil {
		return "", err
	}
	needed := map[string]string{}
	for _, name := range packages {
		needed[name] = tested.Dependencies[name]
	}
	if testFolder := os.Getenv("ONECALL_TEST_NPM"); testFolder != "" {
		maps.Copy(s.Versions, needed)
		return testFolder, nil
	}
	if text, err = json.MarshalIndent(map[string]any{"private": true, "dependencies": needed}, "", "\t"); err != nil {
		return "", err
	}
	folder = filepath.Join(o.Tools, "npm-"+folderName)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(folder, "package.json"), text, 0o644); err != nil {
		return "", err
	}
	cmd := exec.Command("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = folder
	if _, err := proc.Run(ctx, cmd, &proc.Options{Limit: installTime}); err != nil {
		return "", fmt.Errorf("npm install: %w", err)
	}
	maps.Copy(s.Versions, needed)
	return folder, nil
}
