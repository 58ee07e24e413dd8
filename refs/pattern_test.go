package refs

import (
	"fmt"
	"regexp/syntax"
	"runtime"

	"pgregory.net/rapid"
)

// compiled returns how many instructions the standard library makes of a pattern.
func compiled(t fataler, source string) int {
	tree, err := syntax.Parse(source, syntax.Perl)
	must(t, err)
	machine, err := syntax.Compile(tree.Simplify())
	must(t, err)
	return len(machine.Inst)
}

// drawPattern draws the source of a pattern, which may be invalid.
func drawPattern(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{``, `a`, `ä`, `ab`, `.`, `[ab]`, `[^b]`, `\w`, `\b`, `\B`, `^`, `$`, `\A`, `\z`, `(?m)^`, `(?m)$`,
			`(?i)ab`, `\pL`, `()`,
			`\Qa.\E`}).Draw(t, "leaf")
	}
	inner := func() string { return drawPattern(t, depth-1) }
	switch rapid.IntRange(0, 6).Draw(t, "form") {
	case 0:
		return inner() + inner()
	case 1:
		return inner() + "|" + inner()
	case 2:
		return "(" + inner() + ")"
	case 3:
		low, more := rapid.IntRange(0, 4).Draw(t, "low"), rapid.IntRange(0, 4).Draw(t, "more")
		times := rapid.SampledFrom([]string{fmt.Sprintf("{%d}", low), fmt.Sprintf("{%d,}", low),
			fmt.Sprintf("{%d,%d}", low, low+more)}).Draw(t, "times")
		return "(?:" + inner() + ")" + times
	case 4:
		return "(?:" + inner() + ")" + rapid.SampledFrom([]string{"*", "+", "?", "*?", "+?", "??"}).Draw(t, "times")
	case 5:
		return "(?:" + inner() + "|" + inner() + "|" + inner() + ")"
	}
	return inner()
}

// allocated returns the number of bytes that f allocates. Nothing else may run meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// retainedBytes returns the number of bytes that f leaves allocated. Nothing else may run meanwhile.
func retainedBytes(f func()) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}
