package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/config"
)

// tooLong is a limit against hangs: longer than any correct test takes.
const tooLong = 2 * time.Minute

// silent is a Reporter that reports nothing.
type silent struct{}

func (silent) Notice(string, ...any) {}
func (silent) Warn(*fault.Error)     {}
func (silent) Faults(*config.Error)  {}

// processOf returns a process that reports nothing.
func processOf(o Options, s serverTraits) *process {
	o.Reporter, o.Redactor = silent{}, &Redactor{}
	return newProcess(&o, s)
}

// appOf returns an app that has only its configuration.
func appOf(t *testing.T, text string, s serverTraits) *App {
	t.Helper()
	c, faults := config.Parse("onecall.yaml", []byte(text), func(name string) (string, bool) {
		if name == "TEST_JOURNAL_KEY" {
			return strings.Repeat("k", 32), true
		}
		return os.LookupEnv(name)
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	return &App{config: c, process: processOf(Options{}, s)}
}

// write writes a file and returns its path.
func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the text of a file.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
