package logline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/secret"
	"github.com/onecall-mcp/onecall/internal/telemetry"
)

// TestLogsAreScrubbed: no log contains a secret of the configuration, in any spelling.
func TestLogsAreScrubbed(t *testing.T) {
	t.Parallel()
	const password = "pass\"word\\with\x01<all>\u200b" // JSON and text quote it, each in its own way
	for _, format := range []string{"text", "json"} {
		var b bytes.Buffer
		scrub := secret.New([]string{password}).Text
		l := New(&b, &Options{Level: slog.LevelDebug, JSON: format == "json", Scrub: scrub})
		slog.New(telemetry.LogHandler(l.Handler)).With("with", password).WithGroup("group").Debug("said "+password, "text", password, "error",
			errors.New("was "+password),
			"fault", fault.New(fault.Unavailable, "at %s", password), "list", slog.GroupValue(slog.String("deep", password)))
		fmt.Fprintln(l.Messages, "warning: "+scrub(password))
		if got := b.String(); strings.Contains(got, "pass") || strings.Count(got, "[redacted]") < 6 {
			t.Errorf("%s: got log %s, want no secret and at least 6 redactions", format, got)
		}
		if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); format == "json" && (len(lines) != 2 || !json.Valid([]byte(lines[1]))) {
			t.Errorf("got lines %q, want two of JSON", lines)
		}
	}
}
