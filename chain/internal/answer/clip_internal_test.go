package answer

import "testing"

// TestClipMessage: an address is shown whole or not at all.
func TestClipMessage(t *testing.T) {
	t.Parallel()
	const text = "a person approves it in the console, http://localhost:1/console/runs/run_a/approve"
	for n, want := range map[int]string{
		200: text, len(text): text, len(text) - 1: "a person approves it in the console, …", 50: "a person approves it in the console, …",
		20: "a person approves i…",
	} {
		if got := clipMessage(text, n); got != want {
			t.Errorf("%d characters: %q, want %q", n, got, want)
		}
	}
}
