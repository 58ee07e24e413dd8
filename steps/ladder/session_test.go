package ladder

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// TestWithoutASession: the message explains how calls count for a client without a session.
func TestWithoutASession(t *testing.T) {
	t.Parallel()
	r := newLadder(t, Options{Mode: Enforce}).Wrap((&backend{}).registry(t))
	for name, test := range map[string]struct {
		ctx  context.Context
		ends string
	}{
		"none":    {t.Context(), "call " + code[1] + " first, with it, both in one chain"},
		"perhaps": {session(t), "call " + code[1] + " first, with it (both in one chain, where no session is kept)"},
	} {
		if f := call(test.ctx, t, r, code[2], `{"symbolId":"a"}`); f == nil || !strings.HasSuffix(f.Message, test.ends) {
			t.Errorf("%s: %v, want %s at the end", name, f, test.ends)
		}
	}
}

// TestLog: calls that Warn mode lets pass are logged, whether the caller is warned or not, never with the subject; no other call is logged.
func TestLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mode string
		callbacks  *steps.Callbacks
		lines      int
	}{
		{"caller without Warn", "warn", &steps.Callbacks{}, 1},
		{"caller with Warn", "warn", &steps.Callbacks{Warn: func(f *fault.Error) {}}, 1},
		{"denied call", "enforce", &steps.Callbacks{}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			mode, err := ParseMode(test.mode)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			r := newLadder(t, Options{Mode: mode, Log: slog.New(slog.NewJSONHandler(&log, nil))}).Wrap((&backend{}).registry(t))
			ctx := steps.WithCallbacks(session(t), test.callbacks)
			for _, name := range []string{code[1], code[4], code[4]} {
				call(ctx, t, r, name, `{"symbolId":"a secret subject"}`)
			}
			if n := strings.Count(log.String(), "\n"); n != test.lines || strings.Contains(log.String(), "secret") {
				t.Fatalf("got %d lines, want %d without the secret: %s", n, test.lines, &log)
			}
			if test.lines == 0 {
				return
			}
			var line struct {
				Level, Function string
				First           []string
			}
			if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Level != "WARN" || line.Function != code[4] ||
				len(line.First) != 2 || line.First[0] != code[2] {
				t.Errorf("got the log line %s, want WARN, the function and 2 that come first", &log)
			}
		})
	}
}
