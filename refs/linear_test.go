package refs

import (
	"strings"
	"testing"
)

// TestLongTexts compiles texts of a megabyte that repeat what may begin a reference. A search that looks at the whole text again at each
// place would take longer than a test may.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	scope := CompileScope{Step: 1, Steps: 2, IDs: map[string]int{"a": 0}}
	for _, unit := range []string{"{{", "{{a", "{{a.b ", "{{steps.a.", "${{ a", "${ ", "$steps.!", "${steps.", "$$"} {
		text := "x " + strings.Repeat(unit, 1<<20/len(unit))
		if compiled, _ := CompileTemplate([]byte(`"`+text+`"`), scope); compiled == nil {
			t.Errorf("%q: not compiled", unit)
		}
	}
}
