// Package protocol names the versions of MCP that onecall speaks. They are dates, and compare as text.
package protocol

import "time"

const (
	// Stateless is the first version without sessions (SEP-2567 and SEP-2575).
	Stateless = "2026-07-28"
	// Stateful is the last version with sessions.
	Stateful = "2025-11-25"
)

// Versions are all of them, the newest first.
var Versions = []string{Stateless, Stateful, "2025-06-18", "2025-03-26", "2024-11-05"}

// HasSessions reports whether clients of a version have sessions. A text that is no version is that of an old client.
func HasSessions(version string) bool {
	_, err := time.Parse(time.DateOnly, version)
	return err != nil || version < Stateless
}
