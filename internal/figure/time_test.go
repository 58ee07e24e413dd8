package figure_test

import (
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/internal/figure"
)

func TestMillis(t *testing.T) {
	t.Parallel()
	for ms, want := range map[float64]string{
		0: "0.0 ms", 0.44: "0.4 ms", 9.94: "9.9 ms", 9.96: "10 ms", 850.4: "850 ms", 999.6: "1.0 s", 9698.6: "9.7 s", 9960: "10 s",
		88323.3: "88 s", 119_600: "2 min", 3_600_000: "60 min", 7_170_000: "2.0 h", 90_000_000: "25.0 h",
	} {
		if got := figure.Millis(ms); got != want {
			t.Errorf("Millis(%v) = %q, want %q", ms, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 14, 15, 0, 0, 0, time.Local)
	for before, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 9 * time.Second: "just now", 40 * time.Second: "40 s ago", time.Minute: "1 min ago",
		59*time.Minute + 59*time.Second: "59 min ago", 5 * time.Hour: "5 h ago", 25 * time.Hour: "1 d ago", 160 * time.Hour: "6 d ago",
		8 * 24 * time.Hour: "2026-03-06",
	} {
		if got := figure.Ago(now.Add(-before), now); got != want {
			t.Errorf("%v before: %q, want %q", before, got, want)
		}
	}
}
