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
		began, looks := time.Now(), 0
		polltest.Until(t, "a second", func() bool { looks++; return time.Since(began) >= time.Second })
		if took := time.Since(began); took > 1100*time.Millisecond || looks > 50 {
			t.Errorf("%d looks in %v", looks, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if began = time.Now(); polltest.Try(ctx, func() bool { return false }) || time.Since(began) != time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		if !polltest.Try(ctx, func() bool { return true }) {
			t.Error("what holds is not looked at after the end")
		}
	})
}

// pollsItself and listensOn match what tests must not do: a test polls with this package, and listens on a port that the system chooses.
var (
	pollsItself = regexp.MustCompile(`(?m)^\s*for [^\n{]*; (time\.Sleep|runtime\.Gosched)\(`)
	listensOn   = regexp.MustCompile(`Listen\([^\n)]*"tcp[46]?", "[^"\n]*:[1-9]`)
)

// TestOthersDoNot looks for the plainest forms of both.
func TestOthersDoNot(t *testing.T) {
	t.Parallel()
	root, files := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, forbidden := range []*regexp.Regexp{pollsItself, listensOn} {
			if line := forbidden.Find(text); line != nil {
				t.Errorf("%s: %s", path, bytes.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files: %v", files, err)
	}
}
