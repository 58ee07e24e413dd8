package cli

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

// tooLong is against hangs: nothing that is right comes near to it, on a machine that has much else to do either.
const tooLong = 2 * time.Minute

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

// command makes a process of the command line itself, in a folder of its own, which ends before long.
func command(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), tooLong)
	t.Cleanup(cancel)
	return commandWithin(ctx, t, dir, args...)
}

// self is command without a bound of time.
func self(t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	return commandWithin(context.Background(), t, dir, args...)
}

func commandWithin(ctx context.Context, t testing.TB, dir string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asCommand+"=1", "GORACE="+noRaceDelay, "HOME="+dir, "XDG_CACHE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME=")
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
