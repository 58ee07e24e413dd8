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

func TestUntilAndTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, checks := time.Now(), 0
		polltest.Until(t, "a second has passed", func() bool { checks++; return time.Since(began) >= time.Second })
		if took := time.Since(began); took > 1100*time.Millisecond || checks > 50 {
			t.Errorf("Until made %d checks in %v, want at most 50 in 1.1s", checks, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if got := polltest.Try(ctx, func() bool { return false }); got || time.Since(began) != time.Second {
			t.Errorf("Try returned %v after %v, want false after 1s", got, time.Since(began))
		}
		if !polltest.Try(ctx, func() bool { return true }) {
			t.Error("Try returned false with an expired context, want true: it must check the state once")
		}
	})
}

// pollLoop and fixedPort match code that no test may contain: a polling loop (use package polltest) and a listener on a fixed port (use
// port 0).
var (
	pollLoop  = regexp.MustCompile(`(?m)^\s*for [^\n{]*; (time\.Sleep|runtime\.Gosched)\(`)
	fixedPort = regexp.MustCompile(`Listen\([^\n)]*"tcp[46]?", "[^"\n]*:[1-9]`)
)

// TestForbiddenPatterns searches the tests of all packages for the most obvious polling loops and fixed ports.
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
				t.Errorf("%s polls in a loop or listens on a fixed port, want package polltest or port 0: %s", path, bytes.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("searched %d test files, error %v; want at least 100 and no error", files, err)
	}
}
