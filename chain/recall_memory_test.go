package chain_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
)

// recallHere is set in the environment of the process that is measured.
const recallHere = "ONECALL_TEST_RECALL"

// TestMemoryOfRecall: a run that looks up its earlier calls does not hold the results of all its reads. It is measured in its own process.
func TestMemoryOfRecall(t *testing.T) {
	if os.Getenv(recallHere) != "" {
		recall(t)
		return
	}
	t.Parallel()
	inChildProcess(t, "TestMemoryOfRecall", recallHere+"=1")
}

// recall makes runs that read 128 MiB.
func recall(t *testing.T) {
	const reads = `{"fn":"store.get","forEach":"1..128","args":{"n":"$item"},"concurrency":1,"select":"len($result)"}`
	for _, test := range []struct {
		name, request string
		code          fault.Code
		maximum       uint64 // MiB
	}{
		{"undoes failures", `{"onError":"undo","steps":[` + reads + `,{"fn":"store.put","select":"1","undo":{"fn":"store.remove"}}]}`, "", 30},
		{"asks for approval", `{"steps":[` + reads + `,{"fn":"guarded.put"}]}`, fault.ApprovalRequired, 64 + 30},
	} {
		n, maximum := 0, uint64(0)
		s := newScriptedEngine(t, &forgetful{}, func(string, gjson.Result) ([]byte, error) {
			if n++; n%16 == 0 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				maximum = max(maximum, m.HeapAlloc>>20)
			}
			return []byte(`"` + strings.Repeat("x", 1<<20) + `"`), nil
		})
		s.run(test.code, "%s", test.request)
		t.Logf("%s: %d MiB", test.name, maximum)
		if maximum > test.maximum {
			t.Errorf("%s: %d MiB, want at most %d", test.name, maximum, test.maximum)
		}
	}
}

// forgetful is a driver that holds nothing in memory, like one that writes to a disk.
type forgetful struct{ journal.Memory }

func (*forgetful) Write(_ context.Context, list []journal.Write) ([]bool, error) {
	return make([]bool, len(list)), nil
}
