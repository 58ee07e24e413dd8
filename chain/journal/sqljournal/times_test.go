package sqljournal

import (
	"maps"
	"testing"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// FuzzTimes: any value of a database is decoded or refused, and a decoded value that is encoded again decodes to the same.
func FuzzTimes(f *testing.F) {
	f.Add(encodeTimes(journal.Times{}))
	f.Add(encodeTimes(journal.Times{0: 1, 58: 1 << 40, 187: 3}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		times, err := decodeTimes(data)
		if err != nil {
			return
		}
		again, err := decodeTimes(encodeTimes(times))
		if err != nil || !maps.Equal(times, again) {
			t.Errorf("decoded %v, %v, want %v", again, err, times)
		}
	})
}
