package figure_test

import (
	"strconv"
	"testing"

	"github.com/onecall-mcp/onecall/internal/figure"
)

func TestBetween(t *testing.T) {
	t.Parallel()
	for want, of := range map[string][3]int64{
		"":                     {2, -1, -1},
		"3":                    {3, 3, 3},
		"2 to 5, likely 3":     {2, 3, 5},
		"2 to 5":               {2, -1, 5},
		"at most 5":            {1, -1, 5},
		"at most 5, likely 4":  {0, 4, 5},
		"likely 7":             {1, 7, -1},
		"at least 5, likely 7": {5, 7, -1},
		"0":                    {0, -1, 0},
	} {
		if got := figure.Between(of[0], of[1], of[2], func(n int64) string { return strconv.FormatInt(n, 10) }); got != want {
			t.Errorf("%v is spelled %q, want %q", of, got, want)
		}
	}
}
