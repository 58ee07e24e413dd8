package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onecall-mcp/onecall/internal/secret"
)

// TestReporter checks that a failure to send is logged at once and then once a minute, with the number of lost spans.
func TestReporter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		none, err := New(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &reporter{log: slog.New(slog.NewTextHandler(&out, nil)), metrics: none.metrics, scrub: none.scrub,
			secrets: secret.New([]string{"the-api-key"})}
		for range 10 * 60 {
			r.exported(5, errors.New("no: the-api-key "+strings.Repeat("long ", 1000)))
			r.exported(5, nil)
			time.Sleep(time.Second)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 10 || !strings.Contains(lines[0], "spans=5 ") || !strings.Contains(lines[9], "spans=300 ") {
			t.Errorf("%d lines, want 10: %.1000s", len(lines), out.String())
		}
		if strings.Contains(out.String(), "the-api-key") || len(lines[0]) > 1000 {
			t.Errorf("a line shows the key or is too long: %s", lines[0])
		}
	})
}
