package figure_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/internal/figure"
)

func TestText(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 7: "7", 825: "825", 4453: "4,453", 1234567: "1,234,567", -1000: "-1,000",
		0.851: "0.85", 0.0123: "0.012", 0.00001: "0.000010", 1.284: "1.28", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", -0.5: "-0.50",
	} {
		if got := figure.Text(v); got != want {
			t.Errorf("Text(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestAgainst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v, bound float64
		want     string
	}{
		{0.103, 0.1, "0.103"}, {0.1, 0.1, "0.10"}, {0.094, 0.1, "0.094"}, {1.0004, 1, "1.0004"}, {600.4, 600, "600.4"}, {1e-9 + 1, 1, "1.00000"}, {0.3, 0, "0.30"},
	} {
		if got := figure.Against(c.v, c.bound); got != c.want {
			t.Errorf("Against(%v, %v) = %q, want %q", c.v, c.bound, got, c.want)
		}
	}
}
