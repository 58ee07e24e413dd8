package cli

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/cli/clitest"
	"github.com/onecall-mcp/onecall/internal/durable"
	"github.com/onecall-mcp/onecall/steps"
)

// TestRunHandedOver checks that a worker carries out a run that a server has handed over, unless the caller's token has expired, the server
// has given up the run, or the worker's journal does not have it.
func TestRunHandedOver(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("HOME", folder)
	t.Setenv("XDG_STATE_HOME", filepath.Join(folder, ".state"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(folder, ".cache"))
	c := &cli{streams: &streams{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, errWidth: func() int { return 80 }},
		configPath: clitest.Write(t, folder, "onecall.yaml", "journal: {keep: 1h}\n")}
	err := c.withJournal(t.Context(), app.Options{Calls: true}, func(a *app.App) error {
		for _, test := range []struct {
			key     string
			status  journal.Status // the status in which the server left the run
			expires time.Time
			run     string // the id to continue; "": that of the run
			want    fault.Code
		}{
			{"expired", journal.Waiting, time.Now().Add(-time.Minute), "", fault.Denied},
			{"given up", journal.Failed, time.Time{}, "", fault.Cancelled},
			{"unknown", journal.Waiting, time.Time{}, "run_unknown", fault.BadRequest},
			{"good", journal.Waiting, time.Now().Add(time.Hour), "", ""},
		} {
			run := a.Journal.Begin(&journal.Start{Caller: "ann", Scope: a.Scope(), Key: test.key, Text: []byte(`{"steps":[{"expr":"1"}]}`), Steps: 1,
				Hash: func() string { return "" }})
			lease := run.HandOver()
			if err := run.EndUnfinished(test.status, "", ""); err != nil {
				return err
			}
			handedOver := &durable.Chain{Run: run.ID(), Lease: lease, Caller: &durable.Caller{Caller: steps.Caller{ID: "ann", Expires: test.expires}}}
			if test.run != "" {
				handedOver.Run = test.run
			}
			r, err := c.runHandedOver(t.Context(), a, handedOver)
			switch {
			case err != nil:
				t.Errorf("%s: got error %v, want none", test.key, err)
			case r.OK != (test.want == "") || !r.OK && r.Error.Code != test.want:
				t.Errorf("%s: got %s, want the code %q", test.key, r.Answer, test.want)
			}
		}
		// A journal that cannot be read does not say that it has no run.
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		long := time.Now().Add(-a.Keep())
		if f, err := checkStillStored(ended, a, "no run", long); f != nil || err == nil {
			t.Errorf("with a journal that cannot be read: got %v and error %v, want an error", f, err)
		}
		if f, err := checkStillStored(t.Context(), a, "no run", long); f == nil || err != nil {
			t.Errorf("without a run: got %v and error %v, want a fault", f, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
