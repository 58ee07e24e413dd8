package chain

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
			o := &Options{MaxSteps: 1000, MaxRequestBytes: 1 << 20}
			o.topFields = requestShape.names
			s := &requestState{o: o}
			b.ReportAllocs()
			for b.Loop() {
				if r, faults := s.decode(b.Context(), []byte(text)); r == nil || len(faults.list) > 0 {
					b.Fatal(faults.list)
				}
			}
		})
	}
}
