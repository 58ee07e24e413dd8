package cli

import (
	"bytes"
	"fmt"
	"strconv"
)

// writeComparison writes a comparison as a table.
func (s *streams) writeComparison(r *comparison) error {
	var b bytes.Buffer
	row := func(what, chain, waves, calls string) {
		if s.isNarrow() && what != "" {
			fmt.Fprintf(&b, "%s\n  chain: %s\n  side by side: %s\n  one by one: %s\n", what, chain, waves, calls)
		}
		if s.isNarrow() {
			return
		}
		fmt.Fprintf(&b, "%-30s%10s%21s%19s\n", what, chain, waves, calls)
	}
	row("", "chain", "calls side by side", "calls one by one")
	row("round trips of the model", strconv.Itoa(r.Chain.RoundTrips), "at least "+strconv.Itoa(r.Waves), strconv.Itoa(r.Calls.RoundTrips))
	row("tokens that it writes", strconv.Itoa(r.Chain.Written), strconv.Itoa(r.Calls.Written), strconv.Itoa(r.Calls.Written))
	row("tokens that it reads", strconv.Itoa(r.Chain.Read), strconv.Itoa(r.Calls.Read), strconv.Itoa(r.Calls.Read))
	for _, at := range r.At {
		what := fmt.Sprintf("ms, with %g ms a round trip", at.Model)
		if at.Model == 0 {
			what = "ms, without the model"
		}
		row(what, formatShortMillis(at.Chain), formatShortMillis(at.Waves), formatShortMillis(at.Calls))
	}
	write := s.writeRows
	if s.isNarrow() {
		write = s.writeText
	}
	if err := write(b.Bytes()); err != nil {
		return err
	}
	b.Reset()
	if r.Tools != nil {
		fmt.Fprintf(&b, "\nThe tool list has %d tokens on the surface chain, %d on dispatch, %d on flat.\n",
			r.Tools["chain"], r.Tools["dispatch"], r.Tools["flat"])
	}
	if r.At != nil {
		fmt.Fprintf(&b, "Times without the model are the median of %d; those with one are computed from it.\n", r.Rounds)
	}
	return s.writeText(b.Bytes())
}

func formatShortMillis(ms float64) string {
	if ms < 100 {
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}
