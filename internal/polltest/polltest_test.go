package polltest_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/polltest"
)

func TestTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, checks := time.Now(), 0
		polltest.Until(t, "a second", func() bool { checks++; return time.Since(began) >= time.Second })
		if took := time.Since(began); took > 1100*time.Millisecond || checks > 50 {
			t.Errorf("%d checks in %v, want at most 50 in 1.1 s", checks, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); polltest.Try(ctx, func() bool { return false }) || time.Since(began) != time.Second {
			t.Errorf("Try returned after %v, want false after 1s", time.Since(began))
		}
		if !polltest.Try(ctx, func() bool { return true }) {
			t.Error("Try with an ended context does not check the state once")
		}
	})
}

// pollLoop and fixedPort match what tests must not do: a test polls with this package, and listens on a port that the system chooses.
var (
	pollLoop  = regexp.MustCompile(`(?m)^\s*for [^\n{]*; (time\.Sleep|runtime\.Gosched)\(`)
	fixedPort = regexp.MustCompile(`Listen\([^\n)]*"tcp[46]?", "[^"\n]*:[1-9]`)
)

// TestForbiddenPatterns searches the tests of all packages for the plainest forms of polling and of fixed ports.
func TestForbiddenPatterns(t *testing.T) {
	t.Parallel()
	root, files := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, forbidden := range []*regexp.Regexp{pollLoop, fixedPort} {
			if line := forbidden.Find(text); line != nil {
				t.Errorf("%s polls, or listens on a fixed port: %s", path, bytes.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("searched %d files, want at least 100: %v", files, err)
	}
}
