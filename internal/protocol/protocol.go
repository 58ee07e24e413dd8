// Package protocol names the versions of MCP that onecall speaks, and MCP's log levels. Versions are dates, which compare as text.
package protocol

import "time"

const (
	// Stateless is the first version without sessions (SEP-2567 and SEP-2575).
	Stateless = "2026-07-28"
	// Stateful is the last version with sessions.
	Stateful = "2025-11-25"
)

// Versions holds all versions, the newest first.
var Versions = []string{Stateless, Stateful, "2025-06-18", "2025-03-26", "2024-11-05"}

// LogLevels orders the levels of log messages by severity, the least severe first (RFC 5424).
var LogLevels = map[string]int{"debug": 0, "info": 1, "notice": 2, "warning": 3, "error": 4, "critical": 5, "alert": 6, "emergency": 7}

// HasSessions reports whether clients of a version have sessions. A text that is not a version counts as an old client's.
func HasSessions(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err != nil || version < Stateless
}
