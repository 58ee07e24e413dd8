package commands

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/transcript"
	"github.com/onecall-mcp/onecall/steps"
)

// TestPresetArguments: testdata/presets.txtar has calls of presets, and what the program gets. The program need not be there.
func TestPresetArguments(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	transcript.Each(t, "testdata/presets.txtar", func(t *testing.T, archive *txtar.Archive) {
		transcript.Replay(t, archive.Files, func(t *testing.T, section *txtar.File) string {
			s, err := New(&Options{Root: t.TempDir(), Commands: []Command{{Name: section.Name, Preset: section.Name}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			registry, err := steps.NewRegistry(s.Functions(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.commands {
				c.program = self
			}
			return transcript.Lines(t, string(section.Data), func(call string) string {
				name, args, _ := strings.Cut(call, " ")
				entry, err := registry.Resolve(name)
				if err != nil {
					t.Fatal(err)
				}
				p, f := prepare(t, s.commands, entry, args)
				if f != nil {
					return string(f.Code) + " at " + f.At + ": " + f.Message
				}
				defer p.folder.Close()
				return strings.Join(p.arguments, " ")
			})
		})
	})
}

// prepare makes the program of a call ready, whose arguments were checked.
func prepare(t *testing.T, list []*command, entry *steps.Entry, args string) (*program, *fault.Error) {
	accepted, f := entry.Accept(t.Context(), []byte(args))
	if f != nil {
		return nil, f
	}
	for _, c := range list {
		if c.spec.Name == entry.Spec().Name {
			return c.prepare(accepted)
		}
	}
	t.Fatalf("no command is %s", entry.Spec().Name)
	return nil, nil
}
