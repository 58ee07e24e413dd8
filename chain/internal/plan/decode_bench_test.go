package plan

import "testing"

// BenchmarkDecode decodes a chain of ten simple calls, and one that has every field.
func BenchmarkDecode(b *testing.B) {
	full := `{"fn":"a.b","args":{"x":"$0.y"},"id":"s","when":"$0.a > 3","forEach":"$0.items","concurrency":3,"repeat":{"until":"$result.ok","max":3,"delayMs":5,"collect":"$result.a"},"select":"$result.b","orElse":null,"timeoutMs":5000,"retry":{"max":2,"backoffMs":10}}`
	plain := `{"fn":"test.noop","args":{"x":"$0.y","n":1}}`
	ten := plain
	for range 9 {
		ten += "," + plain
	}
	for name, text := range map[string]string{
		"plain": `{"steps":[` + ten + `],"return":"$9","lite":true}`,
		"full":  `{"steps":[` + full + `],"input":{"a":1},"budget":{"maxTotalTokens":500},"onError":"continue","trace":"none","name":"n"}`,
	} {
		b.Run(name, func(b *testing.B) {
			q := &RequestRules{MaxBytes: DefaultMaxBytes, MaxSteps: DefaultMaxSteps, TopFields: requestTable.Names}
			b.ReportAllocs()
			for b.Loop() {
				e := ReadEnvelope([]byte(text), 0, q)
				if r := e.DecodeChain(e.Chain); r == nil || len(e.Faults.List) > 0 {
					b.Fatal(e.Faults.List)
				}
			}
		})
	}
}
