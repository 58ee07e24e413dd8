package admit_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/admit"
)

// TestHeld compares a request's memory with a model: all of it but the free 64 KiB is counted, what was released is used again before more
// is counted, and the end returns everything.
func TestHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const free, total, maxWork = 64 << 10, 1 << 20, 300 << 10
		var b admit.Bytes
		h := admit.Held{Caller: "a", From: &b, Total: total, MaxWork: maxWork}
		used, most := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			n := rapid.IntRange(0, 100<<10).Draw(t, "bytes")
			var code fault.Code
			switch rapid.SampledFrom([]string{"hold", "work", "release"}).Draw(t, "move") {
			case "hold":
				if f := h.Hold(n); f != nil {
					code = f.Code
				}
				if want := codeIf(most+max(used+n-free-most, 0) > total/2, fault.Busy); code != want {
					t.Fatalf("Hold of %d beside %d of at most %d: %q, want %q", n, used, most, code, want)
				}
			case "work":
				code = fault.CodeOf(h.HoldWork(n))
				want := codeIf(used+n > maxWork, fault.LimitExceeded)
				if want == "" {
					want = codeIf(most+max(used+n-free-most, 0) > total/2, fault.Busy)
				}
				if code != want {
					t.Fatalf("HoldWork of %d beside %d: %q, want %q", n, used, code, want)
				}
			case "release":
				n = -min(n, used)
				_ = h.HoldWork(n)
			}
			if code == "" {
				used += n
				most = max(most, used-free)
			}
			if b.Held() != int64(most) {
				t.Fatalf("%d bytes are counted, want %d", b.Held(), most)
			}
		}
		if h.End(); b.Held() != 0 {
			t.Fatalf("%d bytes are counted after the end, want 0", b.Held())
		}
		if code := fault.CodeOf(h.Reserve(total / 4)); code != fault.Cancelled || b.Held() != 0 {
			t.Fatalf("Hold after the end: %q with %d bytes counted, want cancelled and 0", code, b.Held())
		}
	})
}

func codeIf(holds bool, code fault.Code) fault.Code {
	if holds {
		return code
	}
	return ""
}
