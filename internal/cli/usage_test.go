package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/internal/durable"
)

// TestHelpGroups checks that each command stands in a group, and that flags which a program without an engine only refuses are hidden
// there.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	opens := func(context.Context, string, *durable.Options) (durable.Engine, error) {
		return nil, errors.ErrUnsupported
	}
	for name, opener := range map[string]durable.Open{"onecall": nil, "onecall-temporal": opens} {
		for _, cmd := range newRoot(&streams{}, opener).Commands() {
			if cmd.IsAvailableCommand() && cmd.GroupID == "" {
				t.Errorf("%s: the command %s is in no group", name, cmd.Name())
			}
		}
	}
	for _, cmd := range Commands(nil).Commands() {
		if help := cmd.UsageString(); strings.Contains(help, "--engine") || strings.Contains(help, "--durable") {
			t.Errorf("%s shows a flag that it only refuses:\n%s", cmd.Name(), help)
		}
	}
	if run, _, err := Commands(opens).Find([]string{"run"}); err != nil || !strings.Contains(run.UsageString(), "--durable") {
		t.Errorf("with an engine, run lacks --durable: %v", err)
	}
	var out bytes.Buffer
	root := newRoot(&streams{out: &out}, nil)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Examples:\n  onecall init ", "\nRun:\n", "\nLook back:\n", "\nSaved chains:\n", "\nSet up:\n", "\nServe:\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
	fitHelp(root, 80)
	for _, cmd := range append(root.Commands(), root) {
		for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
			if n := len(strings.TrimSuffix(line, "\n")); n > 80 && !strings.Contains(line, "Usage:") && strings.Contains(strings.TrimSpace(line), "  ") {
				t.Errorf("%s: a line of its help has %d columns:\n%s", cmd.Name(), n, line)
			}
		}
	}
}
