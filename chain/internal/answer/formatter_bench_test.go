package answer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/chain/internal/answer/format"
	"github.com/onecall-mcp/onecall/chain/internal/facts"
)

// BenchmarkFormats writes the answers of results of 20 kB. The baseline writes JSON. Target: auto takes at most twice as long.
func BenchmarkFormats(b *testing.B) {
	list := func(n int, element func(i int) string) []byte {
		all := make([]string, n)
		for i := range all {
			all[i] = element(i)
		}
		return []byte("[" + strings.Join(all, ",") + "]")
	}
	counter, err := budget.NewCounter("", 0)
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string][]byte{
		"numbers": list(400, func(i int) string { return fmt.Sprintf(`{"id":%d,"width":%d,"height":%d,"rate":0.%d}`, i, i*7, i*3, i) }),
		"texts": list(150, func(i int) string {
			return fmt.Sprintf(
				`{"path":"src/package%d/file.go","line":%d,"text":"return fmt.Errorf(\"the file %%s of package %d: %%w\", err)"}`, i, i, i)
		}),
		"lines": list(600, func(i int) string { return fmt.Sprintf(`"src/package%d/some_file_%d.go"`, i%20, i) }),
		"mixed": list(400, func(i int) string { return fmt.Sprintf(`{"id":%d,"name%d":"somebody","height":%d}`, i, i%2, i) }),
	} {
		for _, arm := range []string{"baseline=" + format.JSON, format.Auto} {
			b.Run(name+"/"+arm, func(b *testing.B) {
				f := &Form{Counter: counter, Meter: budget.NewMeter(counter, 0), Format: strings.TrimPrefix(arm, "baseline=")}
				step := facts.Step{Planned: &facts.Planned{}, Status: facts.StatusOK, Count: -1, Raw: value}
				var answer []byte
				for b.Loop() {
					run := &facts.Run{Steps: []facts.Step{step}}
					answer = f.Write(context.Background(), &Content{Cause: facts.NoStep(nil), Result: value, Run: run}).JSON
				}
				result := gjson.GetBytes(answer, "result")
				b.ReportMetric(float64(gjson.GetBytes(answer, "usage.tokens").Int()), "tokens")
				switch gjson.GetBytes(answer, "usage.format").Str {
				case "", format.JSON:
					if !bytes.Equal([]byte(result.Raw), value) {
						b.Fatalf("got %.200s, want the value", result.Raw)
					}
				default:
					if want, text := format.Lossless(value, 0); text == nil || result.Str != string(text) {
						b.Fatalf("got %.200s, want it as %s", result.Raw, want)
					}
				}
			})
		}
	}
}
