package redisstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/onecall-mcp/onecall/budget"
	"github.com/onecall-mcp/onecall/budget/redisstore"
)

// FuzzEntry encodes entries, and decodes arbitrary bytes.
func FuzzEntry(f *testing.F) {
	plain, err := redisstore.NewCodec(-1)
	must(f, err)
	compressed, err := redisstore.NewCodec(0)
	must(f, err)
	f.Add([]byte("value"), "owner", int64(1700000000000000))
	f.Add(plain.Encode("id", budget.Entry{Value: []byte("1")}), "", int64(-1))
	f.Add(compressed.Encode("id", budget.Entry{Owner: "o", Value: bytes.Repeat([]byte("1"), 100)}), "", int64(0))
	f.Fuzz(func(t *testing.T, data []byte, owner string, created int64) {
		if e, err := plain.Decode("id", data); err == nil && len(e.Value) > 64*len(data)+1<<20 && len(data) < 100 {
			t.Errorf("%d bytes were decoded to %d, want at most %d", len(data), len(e.Value), 64*len(data)+1<<20)
		}
		if len(owner) > 256 || created < -1<<53 || created > 1<<53 {
			return
		}
		want := budget.Entry{Owner: owner, Created: time.UnixMicro(created), Value: data}
		for _, c := range []redisstore.Codec{plain, compressed} {
			encoded := c.Encode("id", want)
			got, err := plain.Decode("id", encoded)
			if err != nil || got.Owner != owner || !bytes.Equal(got.Value, data) ||
				!got.Created.Equal(want.Created) && created > -1<<53 && created < 1<<53 {
				t.Fatalf("%q of %q, %v was decoded as %q of %q, %v (%v)", data, owner, want.Created, got.Value, got.Owner, got.Created, err)
			}
			if _, err := plain.Decode("other", encoded); err == nil {
				t.Error("Decode accepted the entry of another id")
			}
		}
	})
}
