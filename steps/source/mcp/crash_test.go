package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

func TestCrashDuringCall(t *testing.T) {
	t.Parallel()
	s := openReady(t, childOptions(t, "good"))
	before := len(s.Functions())
	done := startWaiting(t, s)
	f := mustFail(t.Context(), t, s, "shelf.die", `{}`, fault.Unavailable)
	if f.Outcome != fault.SentUnknown {
		t.Errorf("the call that killed the server has outcome %q, want sent_unknown", f.Outcome)
	}
	if !strings.Contains(f.Message, "; it ended with exit status 7; its last words: ") || !strings.Contains(f.Message, "dying of tests") {
		t.Errorf("the fault lacks the exit status or the last words: %s", f.Message)
	}
	other, ok := fault.As(<-done)
	if !ok || other.Code != fault.Unavailable || other.Outcome != fault.SentUnknown {
		t.Errorf("another call during the crash: got %v, want unavailable and sent_unknown", other)
	}
	if len(s.Functions()) != before {
		t.Error("the functions of a crashed server were removed")
	}
	status := await(t, s, steps.StateRetrying)
	if !strings.Contains(status.Error.Message, "exit status 7") || !strings.Contains(status.Error.Message, "dying of tests") {
		t.Errorf("the status lacks the exit status or the last words: %v", status.Error)
	}
	if got := mustCall(t, s, "shelf.put", `{"name":"x"}`); got != `"put"` { // waits for the restart
		t.Errorf("the call after the crash: got %s, want \"put\"", got)
	}
}

// TestCrashByEffect: a call during which the server died is sent once more if it only reads; a configured effect overrides annotations.
func TestCrashByEffect(t *testing.T) {
	t.Parallel()
	read, write, destroy := steps.Read, steps.Write, steps.Destroy
	for name, c := range map[string]struct {
		tool    string
		effect  *steps.Effect
		calls   int
		outcome fault.Outcome // "": the call succeeds
	}{
		"read by annotation":          {"shelf.fragile", nil, 2, ""},
		"declared write":              {"shelf.fragile", &write, 1, fault.SentUnknown},
		"declared destroy":            {"shelf.fragile", &destroy, 1, fault.SentUnknown},
		"undeclared write":            {"shelf.fragile_plain", nil, 1, fault.SentUnknown},
		"declared read":               {"shelf.fragile_plain", &read, 2, ""},
		"declared and annotated read": {"shelf.fragile", &read, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openReady(t, childOptions(t, "good"))
			settings, faults := steps.NewSettings([]steps.Setting{{Pattern: c.tool, Effect: c.effect}})
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			fn, _ := settings.Apply(*function(t, s, c.tool))
			r, err := steps.NewRegistry([]steps.Function{fn}, nil)
			if err != nil {
				t.Fatal(err)
			}
			mark := filepath.Join(t.TempDir(), "mark")
			for _, file := range []string{mark, mark + ".log"} {
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args, _ := json.Marshal(map[string]string{"name": mark})
			result, err := r.All()[0].Call(t.Context(), args)
			if _, alive := os.Stat(mark); alive == nil || (string(result) == `"whole"`) != (c.outcome == "") {
				t.Errorf("got %s, want \"whole\" only without an outcome (%q), and a crash", result, c.outcome)
			}
			if f, _ := fault.As(err); (f != nil) != (c.outcome != "") || f != nil && (f.Code != fault.Unavailable || f.Outcome != c.outcome ||
				!strings.Contains(f.Message, "not known whether its work was done")) {
				t.Errorf("the call failed with %+v, want outcome %q", f, c.outcome)
			}
			if log, _ := os.ReadFile(mark + ".log"); strings.Count(string(log), "called") != c.calls {
				t.Errorf("got calls %q, want %d", log, c.calls)
			}
		})
	}
}
