package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/protocol"
	"github.com/onecall-mcp/onecall/steps"
)

// The answers of a server that is greeted in both ways.
const (
	lateDiscovered = `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`
	lateUnknown    = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"what?"}}`
	lateDuplicate  = `{"jsonrpc":"2.0","id":%s,"error":{"code":0,"message":"duplicate \"initialize\" received"}}`
	lateWelcome    = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"late","version":"0"}}}`
)

// playLate is a server that answers server/discover not before it is sent initialize: to each number in order the answer of
// that place, 0 to server/discover, 1 to initialize. Greeted again it answers at once.
func playLate(discovered, initialized string, order ...int) func() {
	return func() {
		var discover gjson.Result
		greeted := 0
		serveRaw(func(method string, id, _ gjson.Result) {
			switch {
			case method == methodDiscover && greeted == 0:
				discover = id
				greeted++
			case method == methodDiscover:
				say(lateDiscovered, id.Raw)
			case method == methodInitialize:
				for _, place := range order {
					say([...]string{discovered, initialized}[place], [...]gjson.Result{discover, id}[place].Raw)
				}
			case !greet(method, id, oneTool):
				say(`{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":"ok"}]}}`, id.Raw)
			}
		})
	}
}

var lateServers = map[string]func(){
	"late":               playLate(lateDiscovered, lateDuplicate, 0, 1),
	"late, out of order": playLate(lateDiscovered, lateDuplicate, 1, 0),
	"late, of both":      playLate(lateDiscovered, lateWelcome, 0, 1),
	"late, old":          playLate(lateUnknown, lateWelcome, 0, 1),
	"late, refuses":      playLate(lateUnknown, lateDuplicate, 1, 0),
	"refuses":            playLate("", lateDuplicate, 1),
}

// TestLateGreeting: a server that takes longer to start than server/discover waits is greeted with initialize as well, and
// may refuse that for having got both. It is ready all the same, in the process that was started first.
func TestLateGreeting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, protocol string }{
		{"slow", "2026-07-28"}, // as the SDK's servers are
		{"late", "2026-07-28"},
		{"late, out of order", "2026-07-28"},
		{"late, of both", protocol.Stateful},
		{"late, old", protocol.Stateful},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			s, _ := openBad(t, c.kind, nil)
			await(t, s, steps.StateReady, steps.StateRetrying, steps.StateFailed)
			s.mu.Lock()
			n, failed := s.conn, s.attempts
			s.mu.Unlock()
			if n == nil || failed > 0 {
				t.Fatalf("%+v", s.Status())
			}
			if n.protocol != c.protocol {
				t.Errorf("greeted in %s", n.protocol)
			}
			fn := s.Functions()[0]
			if got, err := fn.Call(t.Context(), []byte(`{"name":"x"}`)); err != nil || !strings.Contains(string(got), `"`) {
				t.Errorf("%s, %v", got, err)
			}
			if _ = s.Close(); n.process.err != nil {
				t.Errorf("the process did not leave by itself: %v", n.process.err)
			}
		})
	}
}

// TestLateRefusal: a refusal is told as such, whether the server answers server/discover or not.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"late, refuses", "refuses"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, _ := openBad(t, kind, nil)
			status := await(t, s, steps.StateReady, steps.StateRetrying, steps.StateFailed)
			if f := status.Error; f == nil || f.Code != fault.Unavailable || !strings.Contains(f.Message, "it refused the connection: duplicate") {
				t.Errorf("%+v", status)
			}
		})
	}
}
