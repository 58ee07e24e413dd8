//go:build e2e && unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// npmPackages returns the folder node_modules with the packages of testdata/npm, which ONECALL_TEST_NPM names.
func npmPackages(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("needs node")
	}
	folder := os.Getenv("ONECALL_TEST_NPM")
	if folder == "" {
		t.Skip("needs ONECALL_TEST_NPM: a folder in which testdata/npm/package.json is installed")
	}
	folder, err := filepath.Abs(filepath.Join(folder, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	return folder
}
