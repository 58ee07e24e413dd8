package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var tokenPattern = regexp.MustCompile(`oc1_[A-Za-z0-9_-]+`)

func exitCodeOf(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		return strconv.Itoa(exit.ExitCode())
	}
	return err.Error()
}

// command makes a process of the command line itself, in a folder of its own.
func command(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // against a hang, never reached
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE="+noRaceDelay, "HOME="+dir, "XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	return cmd
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAllowedHost calls the one host that the configuration names.
func TestAllowedHost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"path":%q,"n":1.10}`, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write(t, dir, "onecall.yaml", fmt.Sprintf("http: {allow: [%q]}\n", strings.TrimPrefix(server.URL, "http://")))
	answer, err := command(t, dir, "call", "--lite", "http.get", "url="+server.URL+"/a").Output()
	if err != nil || !strings.Contains(string(answer), `"body":{"path":"/a","n":1.10}`) {
		t.Errorf("%s, %v", answer, err)
	}
	if answer, err = command(t, t.TempDir(), "call", "http.get", "url="+server.URL+"/a").Output(); exitCodeOf(err) != "1" || !strings.Contains(string(answer), `"code":"denied"`) {
		t.Errorf("not allowed: %s, %v", answer, err)
	}
}
